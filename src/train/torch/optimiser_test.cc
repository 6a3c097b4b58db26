// SPDX-License-Identifier: Apache-2.0
#include "train/torch/optimiser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace clover {
namespace {

at::Tensor weight(std::vector<float> values, at::IntArrayRef shape) {
  return at::tensor(values).reshape(shape).set_requires_grad(true);
}

void give(at::Tensor& tensor, std::vector<float> gradient) {
  tensor.mutable_grad() = at::tensor(gradient).reshape(tensor.sizes());
}

float at_index(const at::Tensor& tensor, int64_t i) {
  return tensor.detach().reshape(-1)[i].item<float>();
}

// arXiv 1711.05101, algorithm 2, by hand in double precision.
TEST(AdamW, takes_the_steps_of_its_definition) {
  Recipe recipe;
  recipe.beta1 = 0.8;
  recipe.beta2 = 0.9;
  recipe.epsilon = 1e-3;
  recipe.weight_decay = 0.1;
  at::Tensor matrix = weight({2.0f}, {1, 1});
  at::Tensor bias = weight({2.0f}, {1});
  AdamW adam({matrix, bias}, recipe);
  double m = 0;
  double v = 0;
  double x = 2;
  double b = 2;
  for (int t = 1; t <= 3; ++t) {
    const double g = 0.5 * t;
    give(matrix, {static_cast<float>(g)});
    give(bias, {static_cast<float>(g)});
    EXPECT_NEAR(adam.step(0.01), std::sqrt(2.0) * g, 1e-6);
    m = 0.8 * m + 0.2 * g;
    v = 0.9 * v + 0.1 * g * g;
    const double move = m / (1 - std::pow(0.8, t)) / (std::sqrt(v / (1 - std::pow(0.9, t))) + 1e-3);
    x = x - 0.01 * 0.1 * x - 0.01 * move;
    b = b - 0.01 * move;  // vectors do not decay
    EXPECT_NEAR(at_index(matrix, 0), x, 1e-5);
    EXPECT_NEAR(at_index(bias, 0), b, 1e-5);
    EXPECT_FALSE(matrix.grad().defined());
  }
  EXPECT_EQ(adam.steps(), 3);
}

TEST(AdamW, clips_by_value_and_by_length) {
  Recipe recipe;
  recipe.beta1 = 0;  // the first moment is the clipped gradient
  recipe.clip_value = 1;
  at::Tensor a = weight({0, 0}, {2});
  AdamW by_value({a}, recipe);
  give(a, {3, -0.5f});
  by_value.step(0.1);
  EXPECT_EQ(at_index(by_value.first()[0], 0), 1.0f);
  EXPECT_EQ(at_index(by_value.first()[0], 1), -0.5f);
  recipe.clip_value = 0;
  recipe.clip_norm = 1;
  at::Tensor b = weight({0, 0}, {2});
  AdamW by_length({b}, recipe);
  give(b, {3, 4});
  EXPECT_NEAR(by_length.step(0.1), 5, 1e-6);
  EXPECT_NEAR(at_index(by_length.first()[0], 0), 0.6f, 1e-6);
  EXPECT_NEAR(at_index(by_length.first()[0], 1), 0.8f, 1e-6);
}

TEST(AdamW, a_gradient_that_is_no_number_changes_nothing) {
  at::Tensor a = weight({1, 2}, {2});
  AdamW adam({a}, {});
  give(a, {1, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_FALSE(std::isfinite(adam.step(0.1)));
  EXPECT_EQ(at_index(a, 0), 1.0f);
  EXPECT_EQ(adam.steps(), 0);
  EXPECT_EQ(at_index(adam.first()[0], 0), 0.0f);
}

TEST(AdamW, a_weight_without_gradient_stays) {
  at::Tensor a = weight({1}, {1});
  at::Tensor b = weight({1}, {1});
  AdamW adam({a, b}, {});
  give(a, {1});
  adam.step(0.1);
  EXPECT_NE(at_index(a, 0), 1.0f);
  EXPECT_EQ(at_index(b, 0), 1.0f);
}

}  // namespace
}  // namespace clover
