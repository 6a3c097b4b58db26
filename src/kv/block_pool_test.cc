// SPDX-License-Identifier: Apache-2.0
#include "kv/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "base/error.h"

namespace clover {

bool operator==(const KvMove& a, const KvMove& b) { return a.from == b.from && a.to == b.to; }
void PrintTo(const KvMove& m, std::ostream* out) { *out << m.from << "->" << m.to; }

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

std::vector<int32_t> blocks_of(const KvBlockPool& pool, int64_t sequence) {
  const std::span<const int32_t> blocks = pool.blocks(sequence);
  return {blocks.begin(), blocks.end()};
}

template <typename Action>
void expect_refused(KvBlockPool& pool, Action action) {
  const int64_t free = pool.free_blocks();
  try {
    action();
    ADD_FAILURE() << "no Error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(pool.free_blocks(), free);
  EXPECT_TRUE(pool.consistent());
}

TEST(KvBlockPool, RefusesImpossibleSizes) {
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, int64_t{1} << 31, kHuge}) {
    EXPECT_THROW(KvBlockPool(bad, 16), Error) << bad;
    EXPECT_THROW(KvBlockPool(4, bad), Error) << bad;
  }
}

TEST(KvBlockPool, ReservesAndCommitsAChain) {
  KvBlockPool pool(4, 4);
  pool.create(7);
  EXPECT_THAT(pool.blocks(7), IsEmpty());
  ASSERT_TRUE(pool.reserve(7, 5));
  EXPECT_EQ(pool.reserved(7), 5);
  EXPECT_THAT(blocks_of(pool, 7), ElementsAre(0, 1));
  ASSERT_TRUE(pool.reserve(7, 3));  // fits into the second block
  EXPECT_EQ(pool.free_blocks(), 2);
  pool.commit_prefix(7, 4);
  EXPECT_EQ(pool.committed(7), 4);
  EXPECT_EQ(pool.reserved(7), 0);
  EXPECT_THAT(blocks_of(pool, 7), ElementsAre(0));
  pool.release(7);
  EXPECT_FALSE(pool.contains(7));
  EXPECT_EQ(pool.free_blocks(), 4);
  EXPECT_TRUE(pool.consistent());
}

// Slots of a tree behind 3 committed tokens, blocks of 4 tokens: slot 3 is the last of block 0.
TEST(KvBlockPool, CommitReturnsTheMovesOfAPath) {
  struct Row {
    std::vector<int64_t> path;
    std::vector<KvMove> moves;
    size_t blocks_left;
  };
  // The other sequence takes block 1 first, so the table is blocks {0, 2, 3}: slot 4 lies at 8.
  const Row rows[] = {
      {{}, {}, 1},
      {{3}, {}, 1},
      {{3, 4, 5}, {}, 2},
      {{5}, {{9, 3}}, 1},
      {{3, 6, 7}, {{10, 8}, {11, 9}}, 2},
      {{4, 5, 6}, {{8, 3}, {9, 8}, {10, 9}}, 2},
      {{3, 8, 10}, {{12, 8}, {14, 9}}, 2},
      {{3, 4, 5, 6, 7, 8, 9, 10}, {}, 3},
  };
  for (const Row& row : rows) {
    KvBlockPool pool(8, 4);
    pool.create(1);
    pool.create(2);
    ASSERT_TRUE(pool.reserve(1, 3));
    pool.commit_prefix(1, 3);
    ASSERT_TRUE(pool.reserve(2, 1));
    ASSERT_TRUE(pool.reserve(1, 8));
    ASSERT_THAT(blocks_of(pool, 1), ElementsAre(0, 2, 3));
    EXPECT_EQ(pool.commit(1, row.path), row.moves);
    EXPECT_EQ(pool.committed(1), 3 + static_cast<int64_t>(row.path.size()));
    EXPECT_EQ(pool.reserved(1), 0);
    EXPECT_EQ(pool.blocks(1).size(), row.blocks_left);
    EXPECT_TRUE(pool.consistent());
  }
}

TEST(KvBlockPool, BadPathsChangeNothing) {
  const std::vector<int64_t> bad[] = {{2}, {3, 3}, {4, 3}, {3, 11}, {11}, {-1}, {kHuge}, {3, 2}};
  KvBlockPool pool(8, 4);
  pool.create(1);
  ASSERT_TRUE(pool.reserve(1, 3));
  pool.commit_prefix(1, 3);
  ASSERT_TRUE(pool.reserve(1, 8));
  for (const std::vector<int64_t>& path : bad) {
    expect_refused(pool, [&] { pool.commit(1, path); });
    EXPECT_EQ(pool.committed(1), 3);
    EXPECT_EQ(pool.reserved(1), 8);
  }
}

TEST(KvBlockPool, MisuseIsAnError) {
  KvBlockPool pool(4, 4);
  pool.create(1);
  ASSERT_TRUE(pool.reserve(1, 6));
  pool.commit_prefix(1, 5);
  ASSERT_TRUE(pool.reserve(1, 2));
  expect_refused(pool, [&] { pool.create(1); });
  expect_refused(pool, [&] { pool.release(2); });
  expect_refused(pool, [&] { static_cast<void>(pool.reserve(2, 1)); });
  expect_refused(pool, [&] { static_cast<void>(pool.reserve(1, -1)); });
  expect_refused(pool, [&] { pool.commit(2, {}); });
  expect_refused(pool, [&] { pool.commit_prefix(1, 3); });
  expect_refused(pool, [&] { pool.commit_prefix(1, -1); });
  expect_refused(pool, [&] { pool.commit_prefix(2, 0); });
  expect_refused(pool, [&] { pool.truncate(1, 6); });
  expect_refused(pool, [&] { pool.truncate(1, -1); });
  expect_refused(pool, [&] { pool.truncate(2, 0); });
  expect_refused(pool, [&] { pool.drop(2); });
  expect_refused(pool, [&] { pool.committed(2); });
  expect_refused(pool, [&] { pool.reserved(2); });
  expect_refused(pool, [&] { pool.blocks(2); });
  expect_refused(pool, [&] { pool.share(1, 1); });  // not full
  expect_refused(pool, [&] { pool.share(1, -1); });
  expect_refused(pool, [&] { pool.share(2, 0); });
  for (const int32_t block : {0, -1, 4}) expect_refused(pool, [&] { pool.unshare(block); });
  EXPECT_EQ(pool.committed(1), 5);
  EXPECT_EQ(pool.reserved(1), 2);
}

TEST(KvBlockPool, ExhaustionChangesNothing) {
  KvBlockPool pool(3, 4);
  pool.create(1);
  pool.create(2);
  ASSERT_TRUE(pool.reserve(1, 7));
  for (const int64_t slots : {int64_t{5}, int64_t{12}, int64_t{13}, kHuge}) {
    EXPECT_FALSE(pool.reserve(2, slots));
    EXPECT_FALSE(pool.reserve(1, slots + (slots == kHuge ? 0 : 1)));
  }
  EXPECT_EQ(pool.reserved(1), 7);
  EXPECT_EQ(pool.reserved(2), 0);
  EXPECT_EQ(pool.free_blocks(), 1);
  EXPECT_TRUE(pool.reserve(2, 0));
  EXPECT_TRUE(pool.reserve(2, 4));
  EXPECT_FALSE(pool.reserve(2, 1));
  EXPECT_TRUE(pool.reserve(1, 1));  // the rest of its own block
  EXPECT_TRUE(pool.consistent());
}

TEST(KvBlockPool, HugeBlocksDoNotOverflow) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  KvBlockPool pool(2, kMost);
  pool.create(1);
  ASSERT_TRUE(pool.reserve(1, kMost + 1));
  EXPECT_FALSE(pool.reserve(1, kMost));
  const int64_t path[] = {kMost};
  EXPECT_THAT(pool.commit(1, path), ElementsAre(KvMove{kMost, 0}));
}

// E9: committed length at page size -1, 0, +1 with a tree of 25 nodes; the reservation covers every
// node, and a pool of minimal size refuses the tree but still takes a plain step.
TEST(KvBlockPool, E9TreeAtTheEdgeOfAPage) {
  constexpr int64_t kPage = 16;
  constexpr int64_t kNodes = 25;
  for (const int64_t committed : {kPage - 1, kPage, kPage + 1}) {
    const int64_t needed = (committed + kNodes + kPage - 1) / kPage;
    for (const int64_t blocks : {needed, needed - 1}) {
      KvBlockPool pool(blocks, kPage);
      pool.create(1);
      ASSERT_TRUE(pool.reserve(1, committed));
      pool.commit_prefix(1, committed);
      const std::vector<int32_t> before = blocks_of(pool, 1);
      const bool fits = pool.reserve(1, kNodes);
      EXPECT_EQ(fits, blocks == needed);
      if (fits) {
        EXPECT_GE(static_cast<int64_t>(pool.blocks(1).size()) * kPage, committed + kNodes);
      } else {
        EXPECT_EQ(blocks_of(pool, 1), before);
        EXPECT_TRUE(pool.reserve(1, 1));
      }
      pool.drop(1);
      EXPECT_EQ(blocks_of(pool, 1), before);
      EXPECT_TRUE(pool.consistent());
    }
  }
}

TEST(KvBlockPool, TruncateGivesBlocksBack) {
  KvBlockPool pool(4, 4);
  pool.create(1);
  ASSERT_TRUE(pool.reserve(1, 13));
  pool.commit_prefix(1, 13);
  pool.truncate(1, 13);
  EXPECT_EQ(pool.free_blocks(), 0);
  pool.truncate(1, 8);
  EXPECT_EQ(pool.free_blocks(), 2);
  ASSERT_TRUE(pool.reserve(1, 3));
  pool.truncate(1, 5);
  EXPECT_EQ(pool.reserved(1), 0);
  EXPECT_EQ(pool.free_blocks(), 2);
  pool.truncate(1, 0);
  EXPECT_EQ(pool.free_blocks(), 4);
  EXPECT_TRUE(pool.contains(1));
}

TEST(KvBlockPool, SharedBlocksOutliveTheirSequence) {
  KvBlockPool pool(6, 4);
  pool.create(1);
  ASSERT_TRUE(pool.reserve(1, 10));
  pool.commit_prefix(1, 10);
  const std::vector<int32_t> held = {pool.share(1, 0), pool.share(1, 1)};
  EXPECT_THAT(held, ElementsAre(0, 1));
  pool.release(1);
  EXPECT_EQ(pool.free_blocks(), 4);
  pool.adopt(2, held);
  pool.adopt(3, std::span(held).first(1));
  EXPECT_EQ(pool.committed(2), 8);
  EXPECT_EQ(pool.committed(3), 4);
  ASSERT_TRUE(pool.reserve(2, 1));  // a block of its own: shared ones are full
  EXPECT_THAT(blocks_of(pool, 2), ElementsAre(0, 1, 2));
  EXPECT_TRUE(pool.consistent());
  pool.unshare(0);
  pool.unshare(1);
  EXPECT_EQ(pool.free_blocks(), 3);
  pool.release(2);
  EXPECT_EQ(pool.free_blocks(), 5);  // block 0 still belongs to sequence 3
  pool.release(3);
  EXPECT_EQ(pool.free_blocks(), 6);
  EXPECT_TRUE(pool.consistent());
}

TEST(KvBlockPool, SharedBlocksCannotBeOverwritten) {
  KvBlockPool pool(6, 4);
  pool.create(1);
  ASSERT_TRUE(pool.reserve(1, 8));
  pool.commit_prefix(1, 8);
  const int32_t held = pool.share(1, 1);
  expect_refused(pool, [&] { pool.truncate(1, 6); });
  EXPECT_EQ(pool.committed(1), 8);
  pool.truncate(1, 3);  // inside block 0, which nobody else uses
  EXPECT_EQ(pool.free_blocks(), 4);
  pool.unshare(held);
  EXPECT_EQ(pool.free_blocks(), 5);
}

TEST(KvBlockPool, AdoptTakesHeldBlocksOnly) {
  KvBlockPool pool(4, 4);
  pool.create(1);
  ASSERT_TRUE(pool.reserve(1, 8));
  pool.commit_prefix(1, 8);
  const int32_t held = pool.share(1, 0);
  expect_refused(pool, [&] { pool.adopt(2, std::vector<int32_t>{held, 1}); });
  expect_refused(pool, [&] { pool.adopt(2, std::vector<int32_t>{held, held}); });
  expect_refused(pool, [&] { pool.adopt(2, std::vector<int32_t>{99}); });
  expect_refused(pool, [&] { pool.adopt(1, std::vector<int32_t>{held}); });
  EXPECT_FALSE(pool.contains(2));
  pool.adopt(2, {});
  EXPECT_EQ(pool.committed(2), 0);
}

// A12: 10,000 random steps against a model that stores the tokens themselves in a simulated memory;
// after each step every committed token is still where its sequence expects it.
class RandomSteps {
 public:
  explicit RandomSteps(uint32_t seed) : random_(seed), memory_(kBlocks * kBlockTokens, -1) {}

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      check();
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(refused_, 0);
    EXPECT_GT(moved_, 0);
    EXPECT_GT(adopted_, 0);
  }

 private:
  static constexpr int64_t kBlocks = 24;
  static constexpr int64_t kBlockTokens = 4;

  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  int64_t address(int64_t sequence, int64_t slot) {
    return pool_.blocks(sequence)[slot / kBlockTokens] * kBlockTokens + slot % kBlockTokens;
  }
  std::map<int64_t, std::vector<int64_t>>::iterator some_sequence() {
    return std::next(tokens_.begin(), pick(0, static_cast<int64_t>(tokens_.size()) - 1));
  }

  void step() {
    const int64_t action = pick(0, 19);
    if (tokens_.empty() || (action == 0 && tokens_.size() < 6)) return start();
    const auto [sequence, tokens] = *some_sequence();
    if (action == 1) return release(sequence);
    if (action == 2) return truncate(sequence);
    if (action == 3) return share(sequence);
    if (action == 4) return unshare();
    decode(sequence);
  }

  void start() {
    const int64_t sequence = next_++;
    if (held_.empty() || pick(0, 1) == 0) {
      pool_.create(sequence);
      tokens_[sequence];
      return;
    }
    const auto& [block, content] = held_[pick(0, static_cast<int64_t>(held_.size()) - 1)];
    pool_.adopt(sequence, {&block, 1});
    tokens_[sequence] = content;
    ++adopted_;
  }

  void release(int64_t sequence) {
    pool_.release(sequence);
    tokens_.erase(sequence);
  }

  void truncate(int64_t sequence) {
    const int64_t length = pick(0, static_cast<int64_t>(tokens_[sequence].size()));
    try {
      pool_.truncate(sequence, length);
    } catch (const Error&) {
      EXPECT_NE(length % kBlockTokens, 0);
      return;
    }
    tokens_[sequence].resize(length);
  }

  void share(int64_t sequence) {
    const int64_t full = static_cast<int64_t>(tokens_[sequence].size()) / kBlockTokens;
    if (full == 0 || held_.size() >= 4) return;
    // Only the first block: an adopting sequence starts at position 0.
    const auto begin = tokens_[sequence].begin();
    held_.push_back({pool_.share(sequence, 0), {begin, begin + kBlockTokens}});
  }

  void unshare() {
    if (held_.empty()) return;
    pool_.unshare(held_.back().first);
    held_.pop_back();
  }

  // Reserves a tree or chain, writes all its tokens, commits a random path and carries out the
  // moves.
  void decode(int64_t sequence) {
    std::vector<int64_t>& tokens = tokens_[sequence];
    const int64_t committed = static_cast<int64_t>(tokens.size());
    const int64_t slots = pick(0, 25);
    const int64_t free = pool_.free_blocks();
    if (!pool_.reserve(sequence, slots)) {
      EXPECT_EQ(pool_.free_blocks(), free);
      EXPECT_EQ(pool_.reserved(sequence), 0);
      ++refused_;
      return;
    }
    for (int64_t s = 0; s < slots; ++s) memory_[address(sequence, committed + s)] = next_token_ + s;
    std::vector<int64_t> path;
    const int64_t kind = pick(0, 3);
    for (int64_t s = 0; s < slots; ++s) {
      const bool accept = kind == 0 ? s < slots / 2 : pick(0, 3) == 0;
      if (accept) path.push_back(committed + s);
    }
    for (const int64_t slot : path) tokens.push_back(next_token_ + slot - committed);
    next_token_ += slots;
    if (kind == 0) {
      pool_.commit_prefix(sequence, static_cast<int64_t>(path.size()));
      return;
    }
    if (path.empty()) return pool_.drop(sequence);
    for (const KvMove& move : pool_.commit(sequence, path)) {
      EXPECT_LT(move.to, kBlocks * kBlockTokens);
      memory_[move.to] = memory_[move.from];
      ++moved_;
    }
  }

  void check() {
    ASSERT_TRUE(pool_.consistent());
    ASSERT_EQ(pool_.sequences(), static_cast<int64_t>(tokens_.size()));
    std::set<int32_t> used;
    for (const auto& [sequence, tokens] : tokens_) {
      ASSERT_EQ(pool_.committed(sequence), static_cast<int64_t>(tokens.size()));
      ASSERT_EQ(pool_.reserved(sequence), 0);
      for (size_t s = 0; s < tokens.size(); ++s) {
        ASSERT_EQ(memory_[address(sequence, static_cast<int64_t>(s))], tokens[s]);
      }
      for (const int32_t block : pool_.blocks(sequence)) used.insert(block);
    }
    for (const auto& [block, content] : held_) {
      used.insert(block);
      for (int64_t i = 0; i < kBlockTokens; ++i) {
        ASSERT_EQ(memory_[block * kBlockTokens + i], content[i]);
      }
    }
    ASSERT_EQ(pool_.free_blocks(), kBlocks - static_cast<int64_t>(used.size()));
  }

  std::mt19937 random_;
  KvBlockPool pool_{kBlocks, kBlockTokens};
  std::vector<int64_t> memory_;                     // a token per address
  std::map<int64_t, std::vector<int64_t>> tokens_;  // the committed tokens of each sequence
  std::vector<std::pair<int32_t, std::vector<int64_t>>> held_;
  int64_t next_ = 0;
  int64_t next_token_ = 0;
  int refused_ = 0;
  int moved_ = 0;
  int adopted_ = 0;
};

TEST(KvBlockPool, A12TenThousandRandomSteps) {
  for (const uint32_t seed : {1u, 2u, 3u}) RandomSteps(seed).run(10000);
}

}  // namespace
}  // namespace clover
