// SPDX-License-Identifier: Apache-2.0
#include "speculation/planner/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace clover {
namespace {

bool coin(double probability, uint64_t i) {
  return random_uniform(stream_key(1, i), 0) < probability;
}

TEST(Calibration, BelievesASourceUntilItHasSeenIt) {
  const std::vector<int32_t> bins = {4, 2};
  const Calibration calibration(bins);
  for (const float p : {0.01f, 0.3f, 0.97f})
    EXPECT_NEAR(calibration.probability(std::vector<Vote>{{0, 3, p}}), p, 1e-3f);
  // Two sources that agree are believed more than either.
  const std::vector<Vote> both = {{0, 1, 0.8f}, {1, 0, 0.8f}};
  EXPECT_GT(calibration.probability(both), 0.8f);
}

TEST(Calibration, LearnsWhatABinIsWorth) {
  const std::vector<int32_t> bins = {2};
  Calibration calibration(bins);
  const std::vector<Vote> sure = {{0, 0, 0.95f}};
  const std::vector<Vote> shy = {{0, 1, 0.05f}};
  for (uint64_t i = 0; i < 4000; ++i) {
    calibration.observe(sure, coin(0.3, i));
    calibration.observe(shy, coin(0.6, i + 10000));
  }
  EXPECT_NEAR(calibration.probability(sure), 0.3f, 0.07f);
  EXPECT_NEAR(calibration.probability(shy), 0.6f, 0.07f);
}

// What is new counts: a bin forgets.
TEST(Calibration, FollowsAChange) {
  const std::vector<int32_t> bins = {1};
  Calibration calibration(bins);
  const std::vector<Vote> vote = {{0, 0, 0.5f}};
  for (int i = 0; i < 20000; ++i) calibration.observe(vote, true);
  EXPECT_GT(calibration.probability(vote), 0.95f);
  for (int i = 0; i < 6000; ++i) calibration.observe(vote, false);
  EXPECT_LT(calibration.probability(vote), 0.1f);
}

// One source is right whenever it agrees with the other, and only then.
TEST(Calibration, TellsAgreementFromDissent) {
  const std::vector<int32_t> bins = {1, 1};
  Calibration calibration(bins);
  const std::vector<Vote> alone = {{0, 0, 0.5f}};
  const std::vector<Vote> both = {{0, 0, 0.5f}, {1, 0, 0.5f}};
  for (uint64_t i = 0; i < 20000; ++i) {
    calibration.observe(both, coin(0.9, 2 * i));
    calibration.observe(alone, coin(0.1, 2 * i + 1));
  }
  EXPECT_NEAR(calibration.probability(both), 0.9f, 0.06f);
  EXPECT_NEAR(calibration.probability(alone), 0.1f, 0.06f);
}

TEST(Calibration, ReliabilityAddsUp) {
  const std::vector<int32_t> bins = {1};
  Calibration calibration(bins);
  for (uint64_t i = 0; i < 3000; ++i)
    calibration.observe(std::vector<Vote>{{0, 0, 0.4f}}, coin(0.4, i));
  int64_t count = 0;
  double predicted = 0;
  double observed = 0;
  for (const auto& tenth : calibration.reliability()) {
    count += tenth.count;
    predicted += tenth.predicted;
    observed += tenth.observed;
  }
  EXPECT_EQ(count, 3000);
  EXPECT_NEAR(predicted, observed, 100);
}

TEST(Calibration, StaysBetweenZeroAndOne) {
  const std::vector<int32_t> bins(kMaxSources, 1);
  Calibration calibration(bins);
  std::vector<Vote> all;
  for (int32_t s = 0; s < kMaxSources; ++s) all.push_back({s, 0, 1.0f});
  for (int i = 0; i < 50000; ++i) calibration.observe(all, true);
  EXPECT_LE(calibration.probability(all), 0.9999f);
  for (int i = 0; i < 50000; ++i) calibration.observe(all, false);
  EXPECT_GE(calibration.probability(all), 0.0001f);
  EXPECT_LT(calibration.probability(all), 0.05f);
  const std::vector<int32_t> too_many(kMaxSources + 1, 1);
  EXPECT_THROW(Calibration{too_many}, Error);
}

}  // namespace
}  // namespace clover
