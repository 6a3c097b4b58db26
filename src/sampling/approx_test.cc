// SPDX-License-Identifier: Apache-2.0
#include "sampling/approx.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace clover {
namespace {

constexpr double kTolerance = 1e-6;

TEST(Approx, ExpIsWithinOnePartInAMillion) {
  double worst = 0.0;
  for (int64_t i = -8699; i <= 8799; ++i) {
    for (const double shift : {0.0, 0.0013, 0.0037, 0.0081}) {
      const float x = static_cast<float>(i * 0.01 + shift);
      const double exact = std::exp(static_cast<double>(x));
      worst = std::max(worst, std::abs(approx_exp(x) / exact - 1.0));
    }
  }
  EXPECT_LE(worst, kTolerance);
}

TEST(Approx, ExpOfSmallNumbersIsWithinOnePartInAMillion) {
  for (float x = -1.0f; x < -1e-30f; x *= 0.97f) {
    EXPECT_NEAR(approx_exp(x) / std::exp(static_cast<double>(x)), 1.0, kTolerance) << x;
  }
}

TEST(Approx, ExpAtTheEdges) {
  EXPECT_EQ(approx_exp(0.0f), 1.0f);
  EXPECT_EQ(approx_exp(-0.0f), 1.0f);
  EXPECT_GT(approx_exp(-87.0f), 0.0f);
  EXPECT_EQ(approx_exp(-87.01f), 0.0f);
  EXPECT_EQ(approx_exp(-1e30f), 0.0f);
  EXPECT_EQ(approx_exp(std::numeric_limits<float>::lowest()), 0.0f);
  EXPECT_EQ(approx_exp(-std::numeric_limits<float>::infinity()), 0.0f);
}

TEST(Approx, LogIsWithinOnePartInAMillion) {
  double worst = 0.0;
  for (float x = 1.2e-38f; x < 3e38f; x *= 1.00037f) {
    const double exact = std::log(static_cast<double>(x));
    worst = std::max(worst, std::abs(approx_log(x) - exact) / std::abs(exact));
  }
  EXPECT_LE(worst, kTolerance);
  EXPECT_EQ(approx_log(1.0f), 0.0f);
}

TEST(Approx, Log1pKeepsItsPrecisionNearZero) {
  for (float f = 0.41f; f > 1e-30f; f *= 0.93f) {
    EXPECT_NEAR(approx_log1p_small(f) / std::log1p(static_cast<double>(f)), 1.0, kTolerance) << f;
    const float g = -0.7f * f;
    EXPECT_NEAR(approx_log1p_small(g) / std::log1p(static_cast<double>(g)), 1.0, kTolerance) << g;
  }
}

}  // namespace
}  // namespace clover
