// SPDX-License-Identifier: Apache-2.0
#include "measure/spread.h"

#include <gtest/gtest.h>

namespace clover {
namespace {

TEST(Spread, QuantilesByHand) {
  EXPECT_EQ(quantile({}, 0.5), 0.0);
  EXPECT_EQ(quantile({3}, 0.99), 3.0);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 0.0), 1.0);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 1.0), 4.0);
  EXPECT_NEAR(quantile({0, 10}, 0.95), 9.5, 1e-12);
}

TEST(Spread, Json) {
  const Json spread = spread_json({2, 1, 4});
  EXPECT_EQ(spread["median"], 2.0);
  EXPECT_EQ(spread["min"], 1.0);
  EXPECT_EQ(spread["max"], 4.0);
  EXPECT_EQ(spread["runs"].size(), 3u);
  EXPECT_TRUE(spread_json({}).is_null());
  EXPECT_TRUE(tail_json({}).is_null());
  EXPECT_EQ(tail_json({1, 2, 3})["p50"], 2.0);
}

}  // namespace
}  // namespace clover
