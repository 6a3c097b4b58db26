// SPDX-License-Identifier: Apache-2.0
#include "train/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "train/train_fixtures.h"

namespace clover {
namespace {

using ::testing::HasSubstr;

TEST(Recipe, every_preset_can_be_trained) {
  for (const std::string& name : recipe_names()) {
    const Recipe recipe = preset_recipe(name, 9);
    validate(recipe);
    EXPECT_EQ(recipe.name, name);
    if (recipe.switches) validate(*recipe.switches, 576);
    EXPECT_EQ(recipe_json(recipe)["preset"], name);
  }
  EXPECT_THAT(error_text([] { preset_recipe("clover9", 9); }, ErrorCode::kInvalidArgument),
              HasSubstr("clover9"));
}

// arXiv 2408.00264, section 3.
TEST(Recipe, clover2_is_the_published_one) {
  const Recipe r = preset_recipe("clover2", 9);
  EXPECT_EQ(r.decay, 0.7);
  EXPECT_EQ(r.feature_weight, 10);
  EXPECT_EQ(r.token_loss, TokenLoss::kTarget);
  EXPECT_TRUE(r.only_right);
  EXPECT_EQ(r.rate, 1e-3);
  EXPECT_EQ(r.beta1, 0.9);
  EXPECT_EQ(r.beta2, 0.95);
  EXPECT_EQ(r.clip_value, 0.5);
  EXPECT_EQ(r.noise, 0.01f);
  EXPECT_FALSE(r.switches.has_value());
}

TEST(Recipe, rates_rise_and_fall_as_the_schedule_says) {
  Recipe r;
  r.rate = 2;
  r.warm_up = 4;
  r.final_rate = 0.5;
  r.schedule = RateSchedule::kConstant;
  EXPECT_EQ(learning_rate(r, 0, 0), 0.5);
  EXPECT_EQ(learning_rate(r, 3, 0), 2);
  EXPECT_EQ(learning_rate(r, 100, 1), 2);
  r.schedule = RateSchedule::kCosine;
  EXPECT_NEAR(learning_rate(r, 100, 0.5), 2 * 0.75, 1e-12);
  EXPECT_NEAR(learning_rate(r, 100, 1), 1, 1e-12);
  r.schedule = RateSchedule::kTrapezoid;
  EXPECT_NEAR(learning_rate(r, 100, 0.8), 2, 1e-12);
  EXPECT_NEAR(learning_rate(r, 100, 0.9), 1.5, 1e-12);
  EXPECT_NEAR(learning_rate(r, 100, 7), 1, 1e-12);
}

TEST(Recipe, numbers_out_of_range_are_named) {
  const auto fault = [](auto change) {
    Recipe recipe;
    change(recipe);
    return error_text([&] { validate(recipe); }, ErrorCode::kInvalidArgument);
  };
  EXPECT_THAT(fault([](Recipe& r) { r.rate = -1; }), HasSubstr("rate must be"));
  EXPECT_THAT(fault([](Recipe& r) { r.beta1 = 1; }), HasSubstr("beta1"));
  EXPECT_THAT(fault([](Recipe& r) { r.token_weight = 0; }), HasSubstr("both weights"));
  EXPECT_THAT(error_text([] { parse_token_loss("kl"); }, ErrorCode::kInvalidArgument),
              HasSubstr("'kl'"));
  for (const std::string& name : token_loss_names())
    EXPECT_NE(parse_token_loss(name) == TokenLoss::kText, name != "text");
  EXPECT_THAT(error_text([] { parse_optimiser("sgd"); }, ErrorCode::kInvalidArgument),
              HasSubstr("'sgd'"));
  for (const std::string& name : optimiser_names())
    EXPECT_NE(parse_optimiser(name) == OptimiserKind::kAdamW, name != "adamw");
}

}  // namespace
}  // namespace clover
