// SPDX-License-Identifier: Apache-2.0
#include "train/ngram_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "train/train_fixtures.h"

namespace clover {
namespace {

using ::testing::HasSubstr;

void add(NgramCounts& counts, const std::vector<int32_t>& context,
         const std::vector<NextToken>& next) {
  counts.add(context, next);
}

std::vector<NgramTable::Guess> guesses(const NgramTable::Parts& parts,
                                       const std::vector<int32_t>& context) {
  std::vector<NgramTable::Guess> out;
  NgramTable(parts, 60000, "t").guesses(context, 8, out);
  return out;
}

TEST(NgramCounts, RowsAreMeansFilledUpByShorterContexts) {
  NgramCounts counts;
  add(counts, {1, 2}, {{7, 0.9f}});
  add(counts, {3, 2}, {{8, 0.5f}, {9, 0.3f}});
  EXPECT_EQ(counts.rows(), 2);
  const NgramTable::Parts parts = counts.table({});
  // After 2 alone: the mean of both.
  const auto after_2 = guesses(parts, {40, 2});
  ASSERT_EQ(after_2.size(), 3u);
  EXPECT_EQ(after_2[0].token, 7);
  EXPECT_NEAR(after_2[0].probability, 0.45, 1.0 / 256);
  EXPECT_NEAR(after_2[1].probability, 0.25, 1.0 / 256);
  // After 1 2: seen once, and the shorter context counts as half a row.
  const auto after_12 = guesses(parts, {1, 2});
  EXPECT_EQ(after_12[0].token, 7);
  EXPECT_EQ(after_12[0].order, 2);
  EXPECT_NEAR(after_12[0].probability, (0.9 + 0.5 * 0.45) / 1.5, 1.0 / 256);
  EXPECT_EQ(after_12[1].token, 8);
  EXPECT_NEAR(after_12[1].probability, 0.5 * 0.25 / 1.5, 1.0 / 256);
}

TEST(NgramCounts, LongerContextsGetRowsWhereTheyDiffer) {
  NgramCounts counts;
  for (int i = 0; i < 10; ++i) {
    add(counts, {5, 1, 2}, {{7, 1.0f}});
    add(counts, {6, 1, 2}, {{8, 1.0f}});
  }
  const NgramTable::Parts whole = counts.table({.best = 1});
  EXPECT_EQ(whole.orders[0].size(1), 1);
  EXPECT_EQ(guesses(whole, {5, 1, 2})[0].token, 7);
  EXPECT_EQ(guesses(whole, {6, 1, 2})[0].token, 8);
  // A row of order 1 and two of order 3 take 5 + 2 · 9 bytes; "1 2" says nothing that "2" does not.
  const NgramTable::Parts small = counts.table({.bytes = 23, .best = 1});
  EXPECT_EQ(small.orders[0].size(1), 1);
  EXPECT_EQ(small.orders[1].size(2), 0);
  EXPECT_EQ(small.orders[2].size(3), 2);
  EXPECT_EQ(counts.table({.bytes = 4, .best = 1}).tokens.size(), 0u);
}

TEST(NgramCounts, DoesNotDependOnTheOrderOfTexts) {
  std::vector<std::pair<std::vector<int32_t>, NextToken>> rows;
  for (uint64_t i = 0; i < 4000; ++i) {
    const auto pick = [&](uint64_t k, uint64_t n) {
      return static_cast<int32_t>(mix64(i * 8 + k) % n);
    };
    rows.push_back({{pick(0, 9), pick(1, 9), pick(2, 9)}, {pick(3, 20), 0.5f}});
  }
  const auto table = [&](bool backwards) {
    NgramCounts counts;
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto& [context, next] = rows[backwards ? rows.size() - 1 - i : i];
      counts.add(context, {&next, 1});
    }
    return counts.table({.bytes = 3000});
  };
  const NgramTable::Parts a = table(false), b = table(true);
  EXPECT_EQ(a.tokens, b.tokens);
  for (size_t i = 0; i < a.orders.size(); ++i) {
    EXPECT_EQ(a.orders[i].contexts, b.orders[i].contexts);
    EXPECT_EQ(a.orders[i].next, b.orders[i].next);
    EXPECT_EQ(a.orders[i].probabilities, b.orders[i].probabilities);
  }
}

TEST(NgramCounts, OnlyTheMostUsedTokensHaveNumbers) {
  NgramCounts counts;
  for (int32_t token = 0; token < 40000; ++token)
    for (int i = 0; i < (token < 20000 ? 2 : 1); ++i) add(counts, {token}, {{token, 1.0f}});
  const NgramTable::Parts parts = counts.table({});
  EXPECT_EQ(std::ssize(parts.tokens), NgramTable::kMostTokens);
  EXPECT_EQ(guesses(parts, {19999})[0].token, 19999);
  EXPECT_TRUE(guesses(parts, {39999}).empty());
}

TEST(NgramCounts, RefusesWhatCannotBe) {
  NgramCounts counts;
  EXPECT_THAT(error_text([&] { counts.table({}); }, ErrorCode::kInvalidArgument),
              HasSubstr("none"));
  add(counts, {1}, {{2, 1.0f}});
  for (const int32_t best : {0, 9})
    EXPECT_THAT(error_text([&] { counts.table({.best = best}); }, ErrorCode::kInvalidArgument),
                HasSubstr(std::to_string(best)));
}

}  // namespace
}  // namespace clover
