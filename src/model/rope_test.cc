// SPDX-License-Identifier: Apache-2.0
#include "model/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace clover {
namespace {

ModelConfig rotating(int64_t head_dim, double theta) {
  ModelConfig config;
  config.heads = 1;
  config.head_dim = head_dim;
  config.rope_theta = theta;
  return config;
}

TEST(Rope, FrequenciesArePowersOfTheta) {
  const RopeTable table = make_rope_table(rotating(8, 10000.0));
  ASSERT_EQ(table.frequencies.size(), 4u);
  EXPECT_DOUBLE_EQ(table.frequencies[0], 1.0);
  EXPECT_NEAR(table.frequencies[1], 0.1, 1e-15);
  EXPECT_NEAR(table.frequencies[2], 0.01, 1e-15);
  EXPECT_NEAR(table.frequencies[3], 0.001, 1e-15);
  EXPECT_EQ(table.magnitude, 1.0);
}

TEST(Rope, LinearDividesAndFactorsDivideByPair) {
  ModelConfig config = rotating(4, 10000.0);
  config.rope_scaling.kind = RopeScaling::Kind::kLinear;
  config.rope_scaling.factor = 4.0;
  config.rope_scaling.frequency_factors = {1.0f, 2.0f};
  const RopeTable table = make_rope_table(config);
  EXPECT_DOUBLE_EQ(table.frequencies[0], 0.25);
  EXPECT_NEAR(table.frequencies[1], 0.01 / 8.0, 1e-15);
}

TEST(Rope, Llama3KeepsShortWavesAndDividesLongOnes) {
  ModelConfig config = rotating(128, 500000.0);
  config.rope_scaling.kind = RopeScaling::Kind::kLlama3;
  config.rope_scaling.factor = 8.0;
  config.rope_scaling.original_context = 8192;
  const RopeTable plain = make_rope_table(rotating(128, 500000.0));
  const RopeTable table = make_rope_table(config);
  int kept = 0, divided = 0, between = 0;
  for (size_t i = 0; i < table.frequencies.size(); ++i) {
    const double wavelength = 2.0 * M_PI / plain.frequencies[i];
    const double ratio = table.frequencies[i] / plain.frequencies[i];
    if (wavelength < 8192.0 / 4.0) {
      EXPECT_DOUBLE_EQ(ratio, 1.0);
      ++kept;
    } else if (wavelength > 8192.0) {
      EXPECT_DOUBLE_EQ(ratio, 0.125);
      ++divided;
    } else {
      EXPECT_GT(ratio, 0.125);
      EXPECT_LT(ratio, 1.0);
      ++between;
    }
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(divided, 0);
  EXPECT_GT(between, 0);
}

TEST(Rope, YarnScalesCosAndSin) {
  ModelConfig config = rotating(64, 10000.0);
  config.rope_scaling.kind = RopeScaling::Kind::kYarn;
  config.rope_scaling.factor = 4.0;
  config.rope_scaling.original_context = 2048;
  EXPECT_DOUBLE_EQ(make_rope_table(config).magnitude, 0.1 * std::log(4.0) + 1.0);
  config.rope_scaling.attention_factor = 1.5;
  const RopeTable table = make_rope_table(config);
  EXPECT_EQ(table.magnitude, 1.5);
  EXPECT_DOUBLE_EQ(table.frequencies.front(), 1.0);
  const RopeTable plain = make_rope_table(rotating(64, 10000.0));
  EXPECT_DOUBLE_EQ(table.frequencies.back(), plain.frequencies.back() / 4.0);
  const std::vector<int64_t> origin = {0};
  EXPECT_EQ(rope_angles(table, origin).cos[0], 1.5f);
}

// A row's angles are its own: the same bits alone and among others (invariant 1).
TEST(Rope, AnglesDependOnThePositionAlone) {
  const RopeTable table = make_rope_table(rotating(80, 1e6));
  const std::vector<int64_t> many = {0, 31337, 5, 31337, 2000000000};
  const RopeAngles together = rope_angles(table, many);
  ASSERT_EQ(together.rotary_dim, 80);
  for (size_t r = 0; r < many.size(); ++r) {
    const RopeAngles alone = rope_angles(table, std::span(many).subspan(r, 1));
    for (size_t i = 0; i < 40; ++i) {
      EXPECT_EQ(alone.cos[i], together.cos[r * 40 + i]);
      EXPECT_EQ(alone.sin[i], together.sin[r * 40 + i]);
    }
  }
}

TEST(Alibi, SlopesOfPowersOfTwoAndOfFortyHeads) {
  ModelConfig config;
  config.rope = false;
  config.heads = 8;
  EXPECT_THAT(alibi_slopes(config), ::testing::ElementsAre(0.5f, 0.25f, 0.125f, 0.0625f, 0.03125f,
                                                           0.015625f, 0.0078125f, 0.00390625f));
  config.heads = 40;  // Baichuan 13B: 32 slopes 2^(-i/4), then 2^(-(2i+1)/8)
  const std::vector<float> slopes = alibi_slopes(config);
  ASSERT_EQ(slopes.size(), 40u);
  EXPECT_FLOAT_EQ(slopes[0], std::exp2(-0.25f));
  EXPECT_FLOAT_EQ(slopes[31], std::exp2(-8.0f));
  EXPECT_FLOAT_EQ(slopes[32], std::exp2(-0.125f));
  EXPECT_FLOAT_EQ(slopes[39], std::exp2(-1.875f));
  config.heads = 1;
  EXPECT_THAT(alibi_slopes(config), ::testing::ElementsAre(0.00390625f));
  config.rope = true;
  EXPECT_TRUE(alibi_slopes(config).empty());
}

}  // namespace
}  // namespace clover
