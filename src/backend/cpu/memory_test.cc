// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "backend/cpu/aligned.h"
#include "backend/cpu/kv_memory.h"
#include "backend/cpu/test_util.h"
#include "base/error.h"

namespace clover {
namespace {

using ::testing::HasSubstr;

bool aligned(const void* p) {
  return reinterpret_cast<uintptr_t>(p) % AlignedBuffer::kAlignment == 0;
}

bool all_zero(const uint8_t* p, int64_t n) {
  return std::all_of(p, p + n, [](uint8_t b) { return b == 0; });
}

TEST(AlignedBuffer, ZeroedAlignedAndMovable) {
  for (const int64_t bytes : {1, 63, 64, 4097, 1 << 20}) {
    AlignedBuffer a(bytes);
    ASSERT_TRUE(aligned(a.data()));
    EXPECT_EQ(a.bytes(), bytes);
    EXPECT_TRUE(all_zero(a.data(), bytes));
    a.data()[bytes - 1] = 7;
    AlignedBuffer b = std::move(a);
    EXPECT_EQ(b.data()[bytes - 1], 7);
    EXPECT_EQ(a.bytes(), 0);  // NOLINT(bugprone-use-after-move)
  }
  EXPECT_EQ(AlignedBuffer(0).data(), nullptr);
  EXPECT_EQ(AlignedBuffer(-5).bytes(), 0);
}

TEST(AlignedBuffer, RefusesMoreThanThereIs) {
  try {
    AlignedBuffer huge(int64_t{1} << 60);
    FAIL() << "an exabyte was granted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kExhausted);
    EXPECT_THAT(e.what(), HasSubstr("1152921504606846976 bytes"));
  }
}

TEST(WeightMemory, PiecesAreAlignedZeroedAndApart) {
  WeightMemory memory;
  Random random(1);
  std::vector<std::pair<std::shared_ptr<uint8_t>, int64_t>> pieces;
  // Small ones share a chunk, the large ones need their own.
  for (int i = 0; i < 60; ++i) {
    const int64_t bytes = i % 20 == 7 ? (int64_t{34} << 20) + 1 : random.between(1, 100000);
    pieces.emplace_back(memory.allocate(bytes), bytes);
    uint8_t* p = pieces.back().first.get();
    ASSERT_TRUE(aligned(p));
    ASSERT_EQ(p[0], 0);
    ASSERT_TRUE(all_zero(p + std::max<int64_t>(0, bytes - 1000), std::min<int64_t>(1000, bytes)));
    // The ends carry a mark that a neighbour would overwrite.
    p[0] = static_cast<uint8_t>(i + 1);
    p[bytes - 1] = static_cast<uint8_t>(i + 1);
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(pieces[i].first.get()[0], i + 1);
    EXPECT_EQ(pieces[i].first.get()[pieces[i].second - 1], i + 1);
  }
}

TEST(WeightMemory, PiecesOutliveTheMemoryAndTheirNeighbours) {
  std::shared_ptr<uint8_t> last;
  {
    WeightMemory memory;
    for (int i = 0; i < 1000; ++i) {
      last = memory.allocate(1 << 17);
      last.get()[5] = static_cast<uint8_t>(i & 255);
    }
  }
  EXPECT_EQ(last.get()[5], 999 & 255);
}

TEST(BufferPool, HandsTheWarmestBufferOutAgain) {
  BufferPool pool;
  std::shared_ptr<void> a = pool.get(1000);
  std::shared_ptr<void> b = pool.get(1000);
  ASSERT_NE(a.get(), b.get());
  ASSERT_TRUE(aligned(a.get()) && aligned(b.get()));
  std::memset(a.get(), 1, 1000);
  const void* first = a.get();
  const void* second = b.get();
  std::shared_ptr<void> copy = a;
  a.reset();
  EXPECT_NE(pool.get(1000).get(), first) << "still held by a copy";
  copy.reset();
  b.reset();
  EXPECT_EQ(pool.get(1).get(), second);  // the last returned, sizes up to a page alike
  const std::shared_ptr<void> again = pool.get(4096);
  EXPECT_EQ(again.get(), second);
  EXPECT_EQ(pool.get(10).get(), first);
  const std::shared_ptr<void> larger = pool.get(4097);
  EXPECT_NE(larger.get(), first);
}

TEST(BufferPool, EveryByteAskedForIsThere) {
  BufferPool pool;
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{4096}, int64_t{4097}, int64_t{100000},
                              int64_t{1} << 22, (int64_t{1} << 22) + 1}) {
    for (int round = 0; round < 2; ++round) {
      const std::shared_ptr<void> p = pool.get(bytes);
      ASSERT_NE(p, nullptr);
      std::memset(p.get(), 0xa5, static_cast<size_t>(bytes));
    }
  }
  EXPECT_THROW(pool.get(int64_t{1} << 60), Error);
}

TEST(BufferPool, HandlesOutliveThePool) {
  std::shared_ptr<void> p;
  {
    BufferPool pool;
    p = pool.get(5000);
  }
  std::memset(p.get(), 1, 5000);
  p.reset();
}

TEST(CpuKvStore, RefusesOtherTypesAndEmptyShapes) {
  EXPECT_THROW(CpuKvStore({1, 1, 16, 1, DType::kBF16}), Error);
  EXPECT_THROW(CpuKvStore({1, 1, 16, 1, DType::kQ8_0}), Error);
  for (const KvShape& bad : {KvShape{0, 1, 16, 1}, KvShape{1, 0, 16, 1}, KvShape{1, 1, 0, 1},
                             KvShape{1, 1, 16, 0}, KvShape{-1, 1, 16, 1}, KvShape{1, 1, 16, -1}})
    EXPECT_THROW(CpuKvStore{bad}, Error);
  try {
    CpuKvStore huge({1000, 64, 256, int64_t{1} << 40, DType::kF16});
    FAIL() << "more memory than any machine has was granted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kExhausted);
  }
}

// One value of a key or a value as the store holds it, read where the layout says.
template <typename T>
class StoreReader {
 public:
  StoreReader(const CpuKvStore& store, int64_t layer) : store_(store), layer_(layer) {}
  T key(int64_t address, int64_t head, int64_t i) const {
    const KvHeadView view = store_.head(layer_, head, nullptr);
    const auto* block = reinterpret_cast<const T*>(view.keys + address / 16 * view.block_bytes_k);
    return block[i * 16 + address % 16];
  }
  T value(int64_t address, int64_t head, int64_t i) const {
    const KvHeadView view = store_.head(layer_, head, nullptr);
    const auto* block = reinterpret_cast<const T*>(view.values + address / 16 * view.block_bytes_v);
    return block[address % 16 * view.value_stride + i];
  }

 private:
  const CpuKvStore& store_;
  int64_t layer_;
};

// What a test stores at (layer, address) under key or value index i: distinct numbers below 2^16.
template <typename T>
T mark(int64_t layer, int64_t address, int64_t i, bool value) {
  return static_cast<T>(((layer * 48 + address) * 80 + i) * 2 + (value ? 1 : 0));
}

template <typename T>
void check_moves(DType type) {
  const KvShape shape{2, 2, 20, 3, type};
  CpuKvStore store(shape);
  EXPECT_GE(store.bytes(), 2 * 2 * 20 * 48 * 2 * static_cast<int64_t>(sizeof(T)));
  std::vector<int64_t> holds(48);  // address -> the address whose marks it must have
  for (int64_t layer = 0; layer < 2; ++layer) {
    for (int64_t address = 0; address < 48; ++address) {
      std::vector<T> key(40);
      std::vector<T> value(40);
      for (int64_t i = 0; i < 40; ++i) {
        key[static_cast<size_t>(i)] = mark<T>(layer, address, i, false);
        value[static_cast<size_t>(i)] = mark<T>(layer, address, i, true);
      }
      store.put<T>(layer, address, key.data(), value.data());
      holds[static_cast<size_t>(address)] = address;
    }
  }
  // Within a block, between blocks, onto itself, and a chain whose order matters.
  const std::vector<KvStore::Move> moves = {{5, 3},   {20, 4},  {47, 0}, {16, 15}, {9, 9},
                                            {30, 31}, {31, 32}, {32, 1}, {0, 46}};
  store.move(moves);
  for (const auto& [from, to] : moves)
    holds[static_cast<size_t>(to)] = holds[static_cast<size_t>(from)];
  for (int64_t layer = 0; layer < 2; ++layer) {
    const StoreReader<T> reader(store, layer);
    for (int64_t address = 0; address < 48; ++address) {
      for (int64_t i = 0; i < 40; ++i) {
        const int64_t source = holds[static_cast<size_t>(address)];
        ASSERT_EQ(reader.key(address, i / 20, i % 20), mark<T>(layer, source, i, false));
        ASSERT_EQ(reader.value(address, i / 20, i % 20), mark<T>(layer, source, i, true));
      }
      // Columns up to the next sixteen are read by kernels and stay zero.
      for (int64_t i = 20; i < 32; ++i)
        for (int64_t head = 0; head < 2; ++head) ASSERT_EQ(reader.value(address, head, i), T{0});
    }
  }
}

TEST(CpuKvStore, PutAndMoveKeepEveryValueInEveryLayer) {
  check_moves<uint16_t>(DType::kF16);
  check_moves<float>(DType::kF32);
}

}  // namespace
}  // namespace clover
