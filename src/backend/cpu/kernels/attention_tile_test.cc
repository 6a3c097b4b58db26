// SPDX-License-Identifier: Apache-2.0
// The attention kernels on single tiles: scratch, strides, and vectors together or alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kv_memory.h"
#include "backend/cpu/test_util.h"

namespace clover {
namespace {

constexpr int64_t kDim = 20;
const std::vector<int32_t> kBlocks = {4, 1, 3, 0, 2};

struct TileShape {
  std::vector<int64_t> linear_len;
  std::vector<std::vector<int64_t>> tails;
  int64_t heads;
  int64_t window;
};

const TileShape kTiles[] = {
    {{1}, {{}}, 1, 0},
    {{16}, {{}}, 3, 0},
    {{17, 18, 19, 20}, {{}, {}, {}, {}}, 2, 0},
    {{31, 32, 33, 34, 35, 36, 37, 38}, {{}, {}, {}, {}, {}, {}, {}, {}}, 3, 7},
    {{0, 1, 0}, {{15}, {15, 16}, {40, 3, 70}}, 2, 0},
    // A tail of more than sixteen slots over block edges, longer than the window.
    {{30, 33, 30},
     {{31}, {}, {31, 33, 34, 36, 40, 41, 47, 48, 49, 50, 52, 60, 61, 62, 63, 64, 79}},
     5,
     6},
    {{64, 5, 64}, {{}, {70}, {66, 79}}, 1, 60},
};

template <typename T>
class TileRunner {
 public:
  TileRunner() : store_({1, 1, kDim, 5, sizeof(T) == 2 ? DType::kF16 : DType::kF32}) {
    Random random(3);
    for (int64_t address = 0; address < 80; ++address) {
      T values[2][kDim];
      for (auto& list : values)
        for (T& x : list) {
          const float f = random.uniform(-2, 2);
          x = sizeof(T) == 2 ? static_cast<T>(f32_to_f16(f)) : static_cast<T>(f);
        }
      store_.put<T>(0, address, values[0], values[1]);
    }
    q_ = random.floats(8 * kStride);
    slopes_ = random.floats(5);
  }

  // Rows `rows` and heads `heads` of the shape: [rows][heads][kDim].
  std::vector<float> run(const KernelTable& table, const TileShape& shape, Range rows, Range heads,
                         bool alibi) {
    AttentionTile tile;
    tile.kv = store_.head(0, 0, kBlocks.data());
    tile.rows = rows.end - rows.begin;
    tile.heads = heads.end - heads.begin;
    tile.q = q_.data() + rows.begin * kStride + heads.begin * kDim;
    tile.q_stride = kStride;
    // Entries of other rows lie before this tile's.
    std::vector<int64_t> tail = {1, 2, 3};
    std::vector<int64_t> begin = {3};
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const auto& own = shape.tails[static_cast<size_t>(r)];
      tail.insert(tail.end(), own.begin(), own.end());
      begin.push_back(static_cast<int64_t>(tail.size()));
    }
    tile.linear_len = shape.linear_len.data() + rows.begin;
    tile.tail_begin = begin.data();
    tile.tail = tail.data();
    tile.window = shape.window;
    tile.scale = 0.3f;
    tile.alibi = alibi ? slopes_.data() + heads.begin : nullptr;
    const int64_t width = tile.heads * kDim;
    Misaligned out(tile.rows * (width + 1), 1);
    tile.out = out.data();
    tile.out_stride = width + 1;
    // Exactly the scratch that was announced, full of what an earlier tile may have left.
    Misaligned scratch(attention_scratch(tile), 7, std::nanf(""));
    (sizeof(T) == 2 ? table.attention_f16 : table.attention_f32)(tile, scratch.data());
    EXPECT_TRUE(scratch.guards_intact());
    EXPECT_TRUE(out.guards_intact());
    std::vector<float> result;
    for (int64_t r = 0; r < tile.rows; ++r) {
      const float* row = out.data() + r * (width + 1);
      result.insert(result.end(), row, row + width);
      EXPECT_EQ(row[width], Misaligned::kGuard);
    }
    return result;
  }

 private:
  static constexpr int64_t kStride = 5 * kDim + 3;
  CpuKvStore store_;
  std::vector<float> q_;
  std::vector<float> slopes_;
};

template <typename T>
void check_tiles() {
  TileRunner<T> runner;
  for (const TileShape& shape : kTiles) {
    for (const bool alibi : {false, true}) {
      const auto rows = static_cast<int64_t>(shape.linear_len.size());
      SCOPED_TRACE(
          fmt::format("{} rows from {}, window {}", rows, shape.linear_len[0], shape.window));
      const std::vector<float> whole =
          runner.run(kernels_reference(), shape, {0, rows}, {0, shape.heads}, alibi);
      for (const float x : whole) ASSERT_TRUE(std::isfinite(x));
      for (const KernelTable* table : tables()) {
        ASSERT_TRUE(same_bits(runner.run(*table, shape, {0, rows}, {0, shape.heads}, alibi), whole))
            << table->name;
        std::vector<float> single;
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t h = 0; h < shape.heads; ++h) {
            const auto part = runner.run(*table, shape, {r, r + 1}, {h, h + 1}, alibi);
            single.insert(single.end(), part.begin(), part.end());
          }
        ASSERT_TRUE(same_bits(single, whole)) << table->name;
      }
    }
  }
}

TEST(AttentionTile, HalfStoreSameBitsInEverySetTogetherAndAlone) { check_tiles<uint16_t>(); }

TEST(AttentionTile, FloatStoreSameBitsInEverySetTogetherAndAlone) { check_tiles<float>(); }

}  // namespace
}  // namespace clover
