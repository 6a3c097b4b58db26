// SPDX-License-Identifier: Apache-2.0
#include "sampling/processors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "sampling/noise.h"
#include "sampling/reference_for_tests.h"

namespace clover {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

constexpr float kInf = std::numeric_limits<float>::infinity();

TemperedRow tempered(std::span<const float> logits, float temperature = 1.0f) {
  std::vector<float> block_max;
  const RowScan scan = scan_row(logits, block_max);
  TemperedRow row;
  apply_temperature(logits, block_max, scan.max, temperature, row);
  return row;
}

// A row whose softmax has the given shares.
TemperedRow row_of_shares(std::vector<double> shares) {
  std::vector<float> logits;
  for (const double s : shares) logits.push_back(static_cast<float>(std::log(s)));
  return tempered(logits);
}

std::vector<int64_t> kept(const TemperedRow& row, Cut cut) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < static_cast<int64_t>(row.values.size()); ++i) {
    if (cut.keeps(row.values[i], i)) ids.push_back(i);
  }
  return ids;
}

TEST(ScanRow, FindsMaximaOfRowsOfEveryLength) {
  for (int64_t size = 1; size <= 400; ++size) {
    std::vector<float> row = normal_row(size, size, 3.0);
    std::vector<float> block_max;
    const RowScan scan = scan_row(row, block_max);
    const auto at = std::max_element(row.begin(), row.end());
    EXPECT_EQ(scan.max, *at);
    EXPECT_FALSE(scan.has_nan);
    EXPECT_EQ(first_equal(row, block_max, scan.max), at - row.begin());
    ASSERT_EQ(static_cast<int64_t>(block_max.size()), row_blocks(size));
    for (int64_t b = 0; b < row_blocks(size); ++b) {
      const auto end = row.begin() + std::min(size, (b + 1) * kRowBlock);
      EXPECT_EQ(block_max[b], *std::max_element(row.begin() + b * kRowBlock, end));
    }
  }
}

TEST(ScanRow, SeesNanWhereverItIs) {
  for (int64_t at = 0; at < 300; ++at) {
    std::vector<float> row(300, 1.0f);
    row[at] = at % 2 == 0 ? std::nanf("") : -std::nanf("");
    std::vector<float> block_max;
    EXPECT_TRUE(scan_row(row, block_max).has_nan) << at;
  }
}

TEST(GatherTop, HoldsTheTopNOfAnyRow) {
  for (const int64_t size : {1, 5, 127, 128, 129, 1000, 5000}) {
    std::vector<float> row = normal_row(size + 17, size, 1.0);
    std::vector<float> block_max;
    scan_row(row, block_max);
    std::vector<RankedToken> all;
    for (int64_t i = 0; i < size; ++i) all.push_back({row[i], static_cast<int32_t>(i)});
    std::sort(all.begin(), all.end());
    for (const int64_t n : {1, 2, 5, 39, 40, 128, 999, 6000}) {
      std::vector<RankedToken> top;
      gather_top(row, block_max, n, top);
      std::sort(top.begin(), top.end());
      const size_t expected = static_cast<size_t>(std::min(n, size));
      ASSERT_GE(top.size(), expected);
      for (size_t i = 0; i < expected; ++i) EXPECT_EQ(top[i].id, all[i].id) << size << " " << n;
    }
  }
}

TEST(RepetitionPenalty, DividesPositiveAndMultipliesOtherLogits) {
  std::vector<float> logits = {2.0f, -2.0f, 0.0f, 3.0f, -kInf};
  const TokenCount counts[] = {{0, 1, 0}, {1, 0, 3}, {2, 1, 1}, {4, 1, 0}};
  apply_repetition_penalty(logits, counts, 2.0f);
  EXPECT_THAT(logits,
              ElementsAre(1.0f, -4.0f, 0.0f, 3.0f, -kInf));  // once, however often it occurs
}

TEST(RepetitionPenalty, NeverExcludesOrForcesByOverflow) {
  std::vector<float> logits = {3e38f, -3e38f};
  const TokenCount counts[] = {{0, 1, 0}, {1, 1, 0}};
  apply_repetition_penalty(logits, counts, 0.001f);
  EXPECT_EQ(logits[0], std::numeric_limits<float>::max());
  logits = {3e38f, -3e38f};
  apply_repetition_penalty(logits, counts, 1000.0f);
  EXPECT_EQ(logits[1], std::numeric_limits<float>::lowest());
}

TEST(OutputPenalties, CountOutputOnly) {
  std::vector<float> logits = {1.0f, 1.0f, 1.0f, -kInf};
  const TokenCount counts[] = {{0, 5, 0}, {1, 0, 1}, {2, 1, 3}, {3, 0, 1}};
  apply_output_penalties(logits, counts, 0.5f, 0.25f);
  EXPECT_THAT(logits, ElementsAre(1.0f, 0.25f, -0.25f, -kInf));
}

TEST(LogitBias, AddsExcludesAndForces) {
  std::vector<float> logits = {1.0f, 2.0f, 3.0f, -kInf, -kInf};
  const std::pair<int32_t, float> bias[] = {{0, 0.5f}, {1, -kInf}, {3, 7.0f}, {4, kInf}};
  apply_logit_bias(logits, bias);
  EXPECT_THAT(logits, ElementsAre(1.5f, -kInf, 3.0f, -kInf, kInf));
  resolve_forced(logits, kInf);
  EXPECT_THAT(logits, ElementsAre(-kInf, -kInf, -kInf, -kInf, 0.0f));
}

TEST(LogitBias, ResolveForcedLeavesOrdinaryRowsAlone) {
  std::vector<float> logits = {1.0f, -kInf};
  resolve_forced(logits, 1.0f);
  EXPECT_THAT(logits, ElementsAre(1.0f, -kInf));
}

TEST(AllowedMask, BarsTokensWhoseBitIsZero) {
  std::vector<float> logits(130, 1.0f);
  const uint64_t mask[] = {~uint64_t{0}, 0x5, 0x2};
  apply_allowed_mask(logits, mask);
  for (int i = 0; i < 130; ++i) {
    const bool allowed = i < 64 || i == 64 || i == 66 || i == 129;
    EXPECT_EQ(logits[i], allowed ? 1.0f : -kInf) << i;
  }
}

TEST(BarTokens, Bars) {
  std::vector<float> logits = {1.0f, 2.0f};
  bar_tokens(logits, std::vector<int32_t>{1, 1});
  EXPECT_THAT(logits, ElementsAre(1.0f, -kInf));
}

TEST(Temperature, ShiftsAndScalesAndPads) {
  const TemperedRow row = tempered(std::vector<float>{1.0f, 3.0f, -kInf}, 0.5f);
  ASSERT_EQ(row.values.size(), static_cast<size_t>(kRowBlock));
  EXPECT_EQ(row.values[0], -4.0f);
  EXPECT_EQ(row.values[1], 0.0f);
  for (int64_t i = 2; i < kRowBlock; ++i) EXPECT_EQ(row.values[i], -kInf);
  EXPECT_THAT(row.block_max, ElementsAre(0.0f));
}

TEST(Temperature, TinyValuesLeaveTheGreatest) {
  for (const float t : {1e-45f, 1e-38f, 1e-10f}) {
    const TemperedRow row = tempered(std::vector<float>{1.0f, 3.0f, 2.999f}, t);
    EXPECT_EQ(row.values[1], 0.0f);
    EXPECT_LT(row.values[0], -1e6f);
    EXPECT_LT(row.values[2], -1e6f);
  }
}

TEST(Temperature, BlockMaximaStayExact) {
  const std::vector<float> logits = normal_row(5, 1000, 4.0);
  for (const float t : {0.3f, 0.7f, 1.1f, 3.3f}) {
    const TemperedRow row = tempered(logits, t);
    std::vector<float> block_max;
    scan_row(row.values, block_max);
    EXPECT_EQ(block_max, row.block_max);
  }
}

TEST(TopK, KeepsTheKMostLikely) {
  const TemperedRow row = tempered(std::vector<float>{1, 5, 3, 4, 2});
  EXPECT_THAT(kept(row, top_k_cut(row, 1)), ElementsAre(1));
  EXPECT_THAT(kept(row, top_k_cut(row, 3)), ElementsAre(1, 2, 3));
  EXPECT_THAT(kept(row, top_k_cut(row, 5)), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(kept(row, top_k_cut(row, 1000000)), ElementsAre(0, 1, 2, 3, 4));
}

TEST(TopK, TiesKeepTheLowerId) {
  const TemperedRow row = tempered(std::vector<float>{2, 1, 2, 2, 2});
  EXPECT_THAT(kept(row, top_k_cut(row, 2)), ElementsAre(0, 2));
  EXPECT_THAT(kept(row, top_k_cut(row, 4)), ElementsAre(0, 2, 3, 4));
}

TEST(TopK, ExcludedTokensDoNotCount) {
  const TemperedRow row = tempered(std::vector<float>{-kInf, 1, -kInf, 2});
  EXPECT_THAT(kept(row, top_k_cut(row, 3)), ElementsAre(1, 3));
}

// One token above the rest in each of exactly k blocks: the gathered tokens are just the k.
TEST(TopK, OneCandidatePerBlockIsStillACut) {
  std::vector<float> logits(kRowBlock * 4, 0.0f);
  for (int b = 0; b < 4; ++b) logits[b * kRowBlock + b] = 10.0f + static_cast<float>(b);
  const TemperedRow row = tempered(logits);
  EXPECT_THAT(kept(row, top_k_cut(row, 4)), ElementsAre(0, 129, 258, 387));
  EXPECT_THAT(kept(row, top_k_cut(row, 2)), ElementsAre(258, 387));
}

TEST(TopP, KeepsTheSmallestSetThatReachesTheShare) {
  const TemperedRow row = row_of_shares({0.1, 0.5, 0.15, 0.25});
  EXPECT_THAT(kept(row, top_p_cut(row, {}, 0.3f)), ElementsAre(1));
  EXPECT_THAT(kept(row, top_p_cut(row, {}, 0.5f)), ElementsAre(1));  // reached exactly
  EXPECT_THAT(kept(row, top_p_cut(row, {}, 0.51f)), ElementsAre(1, 3));
  EXPECT_THAT(kept(row, top_p_cut(row, {}, 0.75f)), ElementsAre(1, 3));
  EXPECT_THAT(kept(row, top_p_cut(row, {}, 0.76f)), ElementsAre(1, 2, 3));
  EXPECT_THAT(kept(row, top_p_cut(row, {}, 0.95f)), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(kept(row, top_p_cut(row, {}, 1e-30f)), ElementsAre(1));
}

TEST(TopP, TiesKeepTheLowerId) {
  const TemperedRow row = tempered(std::vector<float>(10, 3.0f));
  for (int tenths = 1; tenths <= 9; ++tenths) {
    const float p = static_cast<float>(tenths) / 10.0f;
    std::vector<int64_t> first(tenths);
    std::iota(first.begin(), first.end(), int64_t{0});
    EXPECT_EQ(kept(row, top_p_cut(row, {}, p)), first) << p;
  }
}

TEST(TopP, ManyEqualTokens) {
  const TemperedRow row = tempered(std::vector<float>(5000, -1.0f));
  EXPECT_EQ(kept(row, top_p_cut(row, {}, 0.5f)).size(), 2500u);
}

TEST(TopP, CountsShareWithinTopK) {
  const TemperedRow row = row_of_shares({0.4, 0.3, 0.2, 0.1});
  const Cut two = top_k_cut(row, 2);  // 4/7 and 3/7
  EXPECT_THAT(kept(row, top_p_cut(row, two, 0.55f)), ElementsAre(0));
  EXPECT_THAT(kept(row, top_p_cut(row, two, 0.6f)), ElementsAre(0, 1));
  EXPECT_THAT(kept(row, top_p_cut(row, two, 0.999f)), ElementsAre(0, 1));
}

TEST(TopP, TieDroppedByTopKStaysDropped) {
  const TemperedRow row = tempered(std::vector<float>{1, 1, 1, 1});
  EXPECT_THAT(kept(row, top_p_cut(row, top_k_cut(row, 2), 0.99f)), ElementsAre(0, 1));
  EXPECT_THAT(kept(row, top_p_cut(row, top_k_cut(row, 2), 0.5f)), ElementsAre(0));
}

TEST(MinP, IsRelativeToTheMostLikely) {
  const TemperedRow row = row_of_shares({0.5, 0.25, 0.2, 0.05});
  EXPECT_THAT(kept(row, min_p_cut({}, 0.5f)), ElementsAre(0, 1));  // reached exactly
  EXPECT_THAT(kept(row, min_p_cut({}, 0.51f)), ElementsAre(0));
  EXPECT_THAT(kept(row, min_p_cut({}, 0.3f)), ElementsAre(0, 1, 2));
  EXPECT_THAT(kept(row, min_p_cut({}, 0.05f)), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(kept(row, min_p_cut({}, 0.999f)), ElementsAre(0));
  EXPECT_THAT(kept(row, min_p_cut({}, 1e-45f)), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(kept(row, min_p_cut(top_k_cut(row, 2), 0.05f)), ElementsAre(0, 1));
}

// The shortcuts of draw_gumbel never change the winner of the plain argmax over all tokens.
TEST(DrawGumbel, EqualsThePlainArgmax) {
  for (const int64_t size : {1, 2, 100, 128, 129, 1000, 20000}) {
    for (const double scale : {0.0, 0.01, 1.0, 4.0, 30.0}) {
      std::vector<float> logits = normal_row(size, size, scale);
      const TemperedRow row = tempered(logits);
      for (uint64_t position = 0; position < 20; ++position) {
        for (const Cut cut : {Cut{}, top_k_cut(row, 40), top_p_cut(row, {}, 0.9f)}) {
          float best = -kInf;
          int32_t winner = -1;
          for (int32_t i = 0; i < size; ++i) {
            const float score = row.values[i] + gumbel_noise(11, position, i);
            if (cut.keeps(row.values[i], i) && score > best) {
              best = score;
              winner = i;
            }
          }
          ASSERT_EQ(draw_gumbel(row, cut, stream_key(11, position)), winner)
              << size << " " << scale;
        }
      }
    }
  }
}

}  // namespace
}  // namespace clover
