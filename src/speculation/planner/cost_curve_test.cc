// SPDX-License-Identifier: Apache-2.0
#include "speculation/planner/cost_curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "speculation/planner/source_gate.h"

namespace clover {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

TEST(CostCurve, IsLinearBetweenItsPointsAndBeyond) {
  const CostCurve curve = CostCurve::of({1, 4, 8}, {2.0, 3.5, 5.5});
  EXPECT_THAT(curve.ms(1), DoubleEq(2.0));
  EXPECT_THAT(curve.ms(2), DoubleEq(2.5));
  EXPECT_THAT(curve.ms(4), DoubleEq(3.5));
  EXPECT_THAT(curve.ms(8), DoubleEq(5.5));
  EXPECT_THAT(curve.ms(16), DoubleEq(9.5));
  EXPECT_THROW(CostCurve::of({1}, {1.0}), Error);
  EXPECT_THROW(CostCurve::of({4, 1}, {1.0, 2.0}), Error);
  EXPECT_THROW(CostCurve::of({1, 4}, {1.0}), Error);
}

TEST(CostCurve, MeasuresEachPointTwiceAndNeverFalls) {
  std::vector<int64_t> asked;
  const CostCurve curve = CostCurve::measure([&](int64_t rows) {
    asked.push_back(rows);
    if (rows == 4) return 1.0;  // disturbed: less than fewer rows
    return asked.size() % 2 == 0 ? 3.0 * static_cast<double>(rows)
                                 : 2.0 * static_cast<double>(rows);
  });
  EXPECT_THAT(asked, ElementsAre(1, 1, 1, 2, 2, 4, 4, 8, 8, 16, 16));
  EXPECT_THAT(curve.ms(1), DoubleEq(2.0));
  EXPECT_GE(curve.ms(4), curve.ms(2));
  // A pass that takes longer than a tenth of a second is not repeated.
  asked.clear();
  CostCurve::measure([&](int64_t rows) {
    asked.push_back(rows);
    return 150.0 * static_cast<double>(rows);
  });
  EXPECT_THAT(asked, ElementsAre(1, 1, 2, 4, 8, 16));
}

TEST(CostCurve, FollowsWhatPassesTakeButNotADisturbance) {
  CostCurve curve = CostCurve::of({1, 4, 8}, {2.0, 3.0, 5.0});
  for (int i = 0; i < 400; ++i) curve.refine(1, 3.0);
  EXPECT_NEAR(curve.ms(1), 3.0, 0.01);
  EXPECT_GE(curve.ms(4), curve.ms(1));  // more rows never look cheaper
  const double before = curve.ms(4);
  curve.refine(4, 1000.0);
  EXPECT_LT(curve.ms(4), before * 1.03);
}

// A source that does not pay is paused, for so long that its trials cost a hundredth.
TEST(SourceGate, PausesWhatDoesNotPayAndTriesAgain) {
  SourceGate gate;
  int64_t with = 0;
  int64_t rounds = 0;
  for (; rounds < 20000; ++rounds) {
    if (!gate.open()) {
      gate.skipped();
      continue;
    }
    ++with;
    gate.judged(0.8, 0.5, 3.5);  // gives less than it takes; a seventh of a step
  }
  EXPECT_GT(with, 100);
  EXPECT_LT(static_cast<double>(with) * 0.5, 0.012 * 3.0 * static_cast<double>(rounds) + 8);
  // It begins to pay: it is used again.
  int64_t used = 0;
  for (int i = 0; i < 4000; ++i) {
    if (!gate.open()) {
      gate.skipped();
      continue;
    }
    ++used;
    gate.judged(1.5, 0.5, 3.5);
  }
  EXPECT_GT(used, 2500);
}

TEST(SourceGate, KeepsWhatPaysOnAverage) {
  SourceGate gate;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(gate.open());
    gate.judged(i % 2 == 0 ? 1.6 : 0.9, 0.5, 3.5);
  }
  EXPECT_GT(gate.gain(), 1.1);
}

}  // namespace
}  // namespace clover
