// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/recycling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "speculation/speculators/observed_for_tests.h"

namespace clover {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

RecallTable::Row row_with(int32_t token) {
  RecallTable::Row row = {};
  row.tokens[0] = token;
  row.probabilities[0] = 0.5f;
  return row;
}

TEST(RecallTable, FindsTheLastRowOfAContext) {
  RecallTable table(64);
  EXPECT_EQ(table.find(0), nullptr);
  table.set(0, row_with(3));
  table.set(17, row_with(4));
  table.set(0, row_with(5));
  ASSERT_NE(table.find(0), nullptr);
  EXPECT_EQ(table.find(0)->tokens[0], 5);
  EXPECT_EQ(table.find(17)->tokens[0], 4);
  EXPECT_EQ(table.find(16), nullptr);
  EXPECT_EQ(table.size(), 2);
}

TEST(RecallTable, TheOldestContextGivesWay) {
  RecallTable table(4);  // one group
  for (uint64_t context = 0; context < 4; ++context) table.set(context, row_with(1));
  table.set(0, row_with(2));  // 1 is now the oldest
  table.set(9, row_with(3));
  EXPECT_EQ(table.find(1), nullptr);
  for (const uint64_t context : {0, 2, 3, 9}) EXPECT_NE(table.find(context), nullptr) << context;
  table.set(10, row_with(3));
  EXPECT_EQ(table.find(2), nullptr);
  EXPECT_EQ(table.size(), 4);
}

TEST(RecallTable, StaysWithinItsCapacity) {
  RecallTable table(256);
  for (uint64_t i = 0; i < 20000; ++i) {
    const uint64_t context = mix64(i);
    table.set(context, row_with(static_cast<int32_t>(i)));
    ASSERT_EQ(table.find(context)->tokens[0], static_cast<int32_t>(i));
  }
  EXPECT_LE(table.size(), table.capacity());
}

// Two tokens whose softmax is (p, 1 - p).
std::vector<TopEntry> two(int32_t a, int32_t b, float p) {
  return {{a, 3.0f + std::log(p)}, {b, 3.0f + std::log(1.0f - p)}};
}

std::vector<Candidate> after(RecyclingSpeculator& recycling, std::span<const int32_t> text,
                             int32_t width = 8) {
  const std::vector<DraftSequence> round = {
      {.id = 1, .tokens = text, .blocks = {}, .draft_slots = 8}};
  recycling.start(round);
  const std::vector<DraftNode> roots = {{0, -1, text.empty() ? 0 : text.back()}};
  std::vector<std::vector<Candidate>> out;
  recycling.expand(roots, width, out);
  return out.at(0);
}

std::vector<int32_t> tokens_of(std::span<const Candidate> candidates) {
  std::vector<int32_t> tokens;
  for (const Candidate& candidate : candidates) tokens.push_back(candidate.token);
  return tokens;
}

TEST(Recycling, KnowsNothingAtFirst) {
  RecyclingSpeculator recycling;
  EXPECT_THAT(after(recycling, std::vector<int32_t>{1, 2, 3}), IsEmpty());
  EXPECT_EQ(recycling.needs().top_k, 8);
  EXPECT_FALSE(recycling.needs().hidden);
}

// The pass read 5 6 and ranked 7 before 8 after them.
TEST(Recycling, RemembersWhatTheTargetRankedHighest) {
  RecyclingSpeculator recycling;
  recycling.begin(1);
  const std::vector<std::vector<TopEntry>> top = {two(7, 8, 0.75f)};
  testing_support::observe_chain(recycling, 1, std::vector<int32_t>{5, 6, 7}, 0, 2, top);
  // "6" alone, after a different token: the context of one.
  const auto one = after(recycling, std::vector<int32_t>{4, 6});
  EXPECT_THAT(tokens_of(one), ElementsAre(7, 8));
  EXPECT_NEAR(one[0].probability, 0.75f, 1e-6);
  EXPECT_NEAR(one[1].probability, 0.25f, 1e-6);
  // "5 6": two agree, in another bin.
  const auto both = after(recycling, std::vector<int32_t>{9, 5, 6});
  EXPECT_THAT(tokens_of(both), ElementsAre(7, 8));
  EXPECT_NEAR(both[0].probability, 0.75f, 1e-6);
  EXPECT_NE(both[0].bin, one[0].bin);
  EXPECT_THAT(after(recycling, std::vector<int32_t>{6, 5}), IsEmpty());
  EXPECT_EQ(after(recycling, std::vector<int32_t>{5, 6}, 1).size(), 1u);
  EXPECT_EQ(after(recycling, std::vector<int32_t>{5, 6}, 0).size(), 0u);
}

// The same token after others: what the longer context says comes first.
TEST(Recycling, LongerContextsComeFirst) {
  RecyclingSpeculator recycling;
  recycling.begin(1);
  std::vector<std::vector<TopEntry>> top = {two(10, 11, 0.9f)};
  testing_support::observe_chain(recycling, 1, std::vector<int32_t>{1, 6, 10}, 0, 2, top);
  top = {two(20, 21, 0.9f)};
  testing_support::observe_chain(recycling, 1, std::vector<int32_t>{2, 6, 20}, 0, 2, top);
  EXPECT_EQ(after(recycling, std::vector<int32_t>{1, 6})[0].token, 10);
  EXPECT_EQ(after(recycling, std::vector<int32_t>{2, 6})[0].token, 20);
  // Both are known after "6": half of each.
  const auto mixed = after(recycling, std::vector<int32_t>{3, 6});
  EXPECT_THAT(tokens_of(mixed), ::testing::UnorderedElementsAre(10, 11, 20, 21));
  EXPECT_NEAR(mixed[0].probability, 0.45f, 1e-5);
}

// A tree of a pass behind "1 2 | 3": x and y below 3, both with logits, y rejected.
TEST(Recycling, LearnsFromRejectedDrafts) {
  RecyclingSpeculator recycling;
  recycling.begin(1);
  const std::vector<int32_t> committed = {1, 2, 3, 40, 50};
  const std::vector<int32_t> tokens = {3, 40, 41};  // root, x, y
  const std::vector<int32_t> parents = {-1, 0, 0};
  const std::vector<int32_t> rows = {0, 1};  // accepted: root and x
  const std::vector<int32_t> top_rows = {0, 1, 2};
  const std::vector<std::vector<TopEntry>> top = {two(40, 41, 0.6f), two(50, 51, 0.9f),
                                                  two(60, 61, 0.9f)};
  const std::vector<ObservedSequence> sequences = {
      {.id = 1, .tokens = committed, .blocks = {}, .first = 2, .rows = rows}};
  const Tensor none;
  recycling.observe({.hidden = none,
                     .tokens = tokens,
                     .parents = parents,
                     .top_rows = top_rows,
                     .top = top,
                     .sequences = sequences});
  EXPECT_EQ(after(recycling, std::vector<int32_t>{3, 41})[0].token, 60);
  EXPECT_EQ(after(recycling, std::vector<int32_t>{3, 40})[0].token, 50);
  // Contexts of three reach into the tokens before the pass: 2 3 41, 1 2 3.
  EXPECT_EQ(recycling.table(3).size(), 3);
  const auto rejected = after(recycling, std::vector<int32_t>{2, 3, 41});
  EXPECT_GT(rejected[0].bin, after(recycling, std::vector<int32_t>{9, 3, 41})[0].bin);
  const auto root = after(recycling, std::vector<int32_t>{1, 2, 3});
  EXPECT_GT(root[0].bin, after(recycling, std::vector<int32_t>{9, 2, 3})[0].bin);
}

TEST(Recycling, FollowsDraftedPathsOfSeveralSequences) {
  RecyclingSpeculator recycling;
  recycling.begin(1);
  // 1 -> 2 -> 3 -> 1 for sure, learned from one sequence, used by two others.
  const std::vector<std::vector<TopEntry>> top = {{{2, 0.0f}}, {{3, 0.0f}}, {{1, 0.0f}}};
  testing_support::observe_chain(recycling, 1, std::vector<int32_t>{1, 2, 3, 1}, 0, 3, top);
  recycling.end(1);
  const std::vector<int32_t> a = {1}, b = {8, 3};
  const std::vector<DraftSequence> round = {{.id = 2, .tokens = a, .blocks = {}, .draft_slots = 8},
                                            {.id = 3, .tokens = b, .blocks = {}, .draft_slots = 8}};
  recycling.start(round);
  std::vector<DraftNode> nodes = {{0, -1, 1}, {1, -1, 3}};
  std::vector<std::vector<Candidate>> out;
  std::vector<int32_t> first, second;
  for (int32_t depth = 0; depth < 5; ++depth) {
    recycling.expand(nodes, 4, out);
    ASSERT_EQ(out.size(), 2u);
    first.push_back(out[0].at(0).token);
    second.push_back(out[1].at(0).token);
    nodes = {{0, 2 * depth, first.back()}, {1, 2 * depth + 1, second.back()}};
  }
  EXPECT_THAT(first, ElementsAre(2, 3, 1, 2, 3));
  EXPECT_THAT(second, ElementsAre(1, 2, 3, 1, 2));
}

// Hostile logits: ties, infinities and NaN must not make a probability outside (0, 1).
TEST(Recycling, SurvivesAnyLogits) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float nan = std::nanf("");
  RecyclingSpeculator recycling;
  recycling.begin(1);
  const std::vector<std::vector<TopEntry>> rows = {{},
                                                   {{1, -kInf}, {2, -kInf}},
                                                   {{1, kInf}, {2, 0.0f}},
                                                   {{1, kInf}, {2, kInf}},
                                                   {{1, nan}, {2, 0.0f}},
                                                   {{1, 3e38f}, {2, -3e38f}},
                                                   {{1, 0.0f}, {2, nan}},
                                                   {{0, 1.0f}, {INT32_MAX, 1.0f}}};
  for (const auto& row : rows) {
    const std::vector<std::vector<TopEntry>> top = {row};
    testing_support::observe_chain(recycling, 1, std::vector<int32_t>{4, 5, 6}, 0, 2, top);
    for (const Candidate& candidate : after(recycling, std::vector<int32_t>{4, 5})) {
      EXPECT_GT(candidate.probability, 0.0f);
      EXPECT_LT(candidate.probability, 1.0f);
      EXPECT_GE(candidate.bin, 0);
      EXPECT_LT(candidate.bin, recycling.bins());
    }
  }
}

TEST(Recycling, MemoryStaysBoundedOverManyContexts) {
  RecyclingSpeculator recycling;
  recycling.begin(1);
  std::vector<int32_t> text;
  for (uint64_t i = 0; i < 100000; ++i)
    text.push_back(static_cast<int32_t>(random_bits(3, i) >> 40));
  const std::vector<std::vector<TopEntry>> top(1000, {{1, 2.0f}, {2, 1.0f}});
  for (size_t at = 0; at + 1000 < text.size(); at += 1000)
    testing_support::observe_chain(recycling, 1, std::span(text).first(at + 1001), at, 1000, top);
  for (int32_t order = 1; order <= RecyclingSpeculator::kOrders; ++order) {
    EXPECT_LE(recycling.table(order).size(), recycling.table(order).capacity());
    EXPECT_GT(recycling.table(order).size(), 50000);
  }
}

TEST(Recycling, NoTokenTwiceAndFallingProbabilities) {
  RecyclingSpeculator recycling;
  recycling.begin(1);
  std::vector<int32_t> text;
  for (uint64_t i = 0; i < 2000; ++i) text.push_back(static_cast<int32_t>(random_bits(4, i) % 9));
  std::vector<std::vector<TopEntry>> top;
  for (uint64_t i = 0; i < 1999; ++i) {
    std::vector<TopEntry> row;
    for (int32_t k = 0; k < 8; ++k)
      row.push_back({static_cast<int32_t>((random_bits(5, i) + static_cast<uint64_t>(k)) % 20),
                     -0.5f * static_cast<float>(k)});
    top.push_back(row);
  }
  testing_support::observe_chain(recycling, 1, text, 0, 1999, top);
  for (size_t n = 3; n < 300; ++n) {
    const auto candidates = after(recycling, std::span(text).first(n), 24);
    std::set<int32_t> seen;
    for (size_t i = 0; i < candidates.size(); ++i) {
      EXPECT_TRUE(seen.insert(candidates[i].token).second);
      if (i > 0) {
        EXPECT_LE(candidates[i].probability, candidates[i - 1].probability);
      }
    }
    EXPECT_GE(seen.size(), 8u);
  }
}

}  // namespace
}  // namespace clover
