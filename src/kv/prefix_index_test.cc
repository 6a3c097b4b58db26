// SPDX-License-Identifier: Apache-2.0
#include "kv/prefix_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/random.h"

namespace clover {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kSize = 4;

// A sequence of the pool with `tokens` committed, published.
PrefixIndex::Known store(KvBlockPool& pool, PrefixIndex& index, int64_t id,
                         const std::vector<int32_t>& tokens) {
  pool.create(id);
  EXPECT_TRUE(pool.reserve(id, std::ssize(tokens)));
  pool.commit_prefix(id, std::ssize(tokens));
  return index.publish(id, tokens, {});
}

TEST(PrefixIndex, FindsTheLongestRunOfFullBlocks) {
  KvBlockPool pool(16, kSize);
  PrefixIndex index(pool);
  store(pool, index, 1, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const std::vector<int32_t> blocks(pool.blocks(1).begin(), pool.blocks(1).end());
  EXPECT_EQ(index.blocks(), 2);  // the third is not full
  EXPECT_THAT(index.find(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
              ElementsAre(blocks[0], blocks[1]));
  EXPECT_THAT(index.find(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7}), ElementsAre(blocks[0]));
  EXPECT_THAT(index.find(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 9}), ElementsAre(blocks[0]));
  EXPECT_THAT(index.find(std::vector<int32_t>{5, 6, 7, 8}), IsEmpty());  // not at the beginning
  EXPECT_THAT(index.find(std::vector<int32_t>{1, 2, 3}), IsEmpty());
  EXPECT_THAT(index.find(std::vector<int32_t>{}), IsEmpty());
}

// The same text computed twice: the second keeps its own blocks, what follows hangs below the
// first.
TEST(PrefixIndex, KnownContentIsNotHeldTwice) {
  KvBlockPool pool(16, kSize);
  PrefixIndex index(pool);
  store(pool, index, 1, {1, 2, 3, 4});
  store(pool, index, 2, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(index.blocks(), 2);
  EXPECT_THAT(index.find(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8}),
              ElementsAre(pool.blocks(1)[0], pool.blocks(2)[1]));
  pool.release(1);
  pool.release(2);
  EXPECT_EQ(pool.idle_blocks(), 2);
  EXPECT_EQ(pool.free_blocks(), 14);
  EXPECT_TRUE(pool.consistent());
}

TEST(PrefixIndex, TheLongestUnusedGoFirstAndFromTheEnd) {
  KvBlockPool pool(6, kSize);
  PrefixIndex index(pool);
  const std::vector<int32_t> a = {1, 2, 3, 4, 5, 6, 7, 8}, b = {9, 9, 9, 9, 8, 8, 8, 8};
  store(pool, index, 1, a);
  store(pool, index, 2, b);
  pool.release(1);
  pool.release(2);
  EXPECT_EQ(index.find(a).size(), 2u);  // used again: b is older now
  ASSERT_TRUE(index.make_room(3));
  EXPECT_EQ(index.find(b).size(), 1u);
  EXPECT_EQ(index.find(a).size(), 2u);
  ASSERT_TRUE(index.make_room(6));
  EXPECT_EQ(index.blocks(), 0);
  EXPECT_THAT(index.find(a), IsEmpty());
  EXPECT_FALSE(index.make_room(7));
}

TEST(PrefixIndex, BlocksInUseStay) {
  KvBlockPool pool(4, kSize);
  PrefixIndex index(pool);
  store(pool, index, 1, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_FALSE(index.make_room(3));
  EXPECT_EQ(index.blocks(), 2);
  const std::vector<int32_t> found = index.find(std::vector<int32_t>{1, 2, 3, 4});
  pool.adopt(2, found);
  pool.release(1);
  EXPECT_TRUE(index.make_room(3));  // the second block
  EXPECT_FALSE(index.make_room(4));
  EXPECT_TRUE(pool.consistent());
}

// Random texts that share beginnings, with little memory: what is found holds what was asked for.
TEST(PrefixIndex, RandomTextsFindTheirOwnContentE6) {
  KvBlockPool pool(24, kSize);
  PrefixIndex index(pool);
  std::map<int32_t, std::vector<int32_t>> content;  // of a block: the text up to its end
  struct Live {
    std::vector<int32_t> tokens;
    PrefixIndex::Known known;
  };
  std::map<int64_t, Live> live;
  const auto bits = [](int64_t step, uint64_t lane) {
    return random_bits(stream_key(7, static_cast<uint64_t>(step)), lane);
  };
  int64_t found_blocks = 0;
  for (int64_t step = 0; step < 20000; ++step) {
    if (live.size() < 4) {
      Live one;
      for (uint64_t i = 0; i < 4 + bits(step, 0) % 16; ++i)
        one.tokens.push_back(static_cast<int32_t>(bits(step, 10 + i) % 2));
      const std::vector<int32_t> found = index.find(one.tokens);
      for (size_t i = 0; i < found.size(); ++i) {
        const auto end = static_cast<int64_t>(i + 1) * kSize;
        ASSERT_EQ(content.at(found[i]),
                  std::vector<int32_t>(one.tokens.begin(), one.tokens.begin() + end));
      }
      found_blocks += std::ssize(found);
      pool.adopt(step, found);
      const int64_t left = std::ssize(one.tokens) - std::ssize(found) * kSize;
      const int64_t more = (left + kSize - 1) / kSize;
      if (!index.make_room(more)) {
        pool.release(step);
        continue;
      }
      ASSERT_TRUE(pool.reserve(step, left));
      pool.commit_prefix(step, left);
      const auto blocks = pool.blocks(step);
      for (int64_t i = std::ssize(found); i < std::ssize(one.tokens) / kSize; ++i)
        content[blocks[static_cast<size_t>(i)]] = {one.tokens.begin(),
                                                   one.tokens.begin() + (i + 1) * kSize};
      one.known = index.publish(step, one.tokens, {});
      live[step] = std::move(one);
    } else {
      auto it = live.begin();
      std::advance(it, bits(step, 1) % live.size());
      it->second.known = index.publish(it->first, it->second.tokens, it->second.known);
      pool.release(it->first);
      live.erase(it);
    }
    ASSERT_TRUE(pool.consistent());
  }
  EXPECT_GT(found_blocks, 1000);
  for (const auto& [id, one] : live) pool.release(id);
  EXPECT_TRUE(index.make_room(24));
}

}  // namespace
}  // namespace clover
