// SPDX-License-Identifier: Apache-2.0
#include "train/torch/optimiser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "train/torch/orthogonal.h"

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
  Optimiser adam({matrix, bias}, recipe);
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
  Optimiser by_value({a}, recipe);
  give(a, {3, -0.5f});
  by_value.step(0.1);
  EXPECT_EQ(at_index(by_value.first()[0], 0), 1.0f);
  EXPECT_EQ(at_index(by_value.first()[0], 1), -0.5f);
  recipe.clip_value = 0;
  recipe.clip_norm = 1;
  at::Tensor b = weight({0, 0}, {2});
  Optimiser by_length({b}, recipe);
  give(b, {3, 4});
  EXPECT_NEAR(by_length.step(0.1), 5, 1e-6);
  EXPECT_NEAR(at_index(by_length.first()[0], 0), 0.6f, 1e-6);
  EXPECT_NEAR(at_index(by_length.first()[0], 1), 0.8f, 1e-6);
}

TEST(AdamW, a_gradient_that_is_no_number_changes_nothing) {
  at::Tensor a = weight({1, 2}, {2});
  Optimiser adam({a}, {});
  give(a, {1, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_FALSE(std::isfinite(adam.step(0.1)));
  EXPECT_EQ(at_index(a, 0), 1.0f);
  EXPECT_EQ(adam.steps(), 0);
  EXPECT_EQ(at_index(adam.first()[0], 0), 0.0f);
}

TEST(AdamW, a_weight_without_gradient_stays) {
  at::Tensor a = weight({1}, {1});
  at::Tensor b = weight({1}, {1});
  Optimiser adam({a, b}, {});
  give(a, {1});
  adam.step(0.1);
  EXPECT_NE(at_index(a, 0), 1.0f);
  EXPECT_EQ(at_index(b, 0), 1.0f);
}

// Jordan et al. 2024: the coefficients send every singular value to about 1, and keep the
// directions.
TEST(Orthogonalised, singular_values_come_near_1) {
  at::Tensor matrix = at::arange(1, 25, at::kFloat).square().sin().reshape({4, 6}) * 1e-3;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor wide = orthogonalised(matrix, type);
    const at::Tensor square = at::mm(wide, wide.t());
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t j = 0; j < 4; ++j)
        EXPECT_NEAR(square[i][j].item<float>(), i == j ? 1.0f : 0.0f, 0.6f) << i << " " << j;
    }
    const at::Tensor tall = orthogonalised(matrix.t().contiguous(), type);
    EXPECT_LT((tall.t() - wide).abs().max().item<float>(), 0.05f);
    // It moves along the gradient: their product is the sum of the singular values, nearly.
    EXPECT_GT((wide * matrix).sum().item<float>(), 0.0f);
  }
  EXPECT_EQ(orthogonalised(at::zeros({3, 2})).abs().sum().item<float>(), 0.0f);
}

TEST(Muon, moves_matrices_by_its_definition_and_vectors_by_adamw) {
  Recipe recipe;
  recipe.optimiser = OptimiserKind::kMuon;
  recipe.momentum = 0.5;
  recipe.weight_decay = 0.1;
  at::Tensor matrix = weight({1, 2, 3, 4, 5, 6}, {2, 3});
  at::Tensor bias = weight({2}, {1});
  at::Tensor bias_alone = weight({2}, {1});
  Optimiser muon({matrix, bias}, recipe);
  recipe.optimiser = OptimiserKind::kAdamW;
  Optimiser adam({bias_alone}, recipe);
  at::Tensor x = matrix.detach().clone();
  at::Tensor m = at::zeros({2, 3});
  for (int step = 1; step <= 2; ++step) {
    const std::vector<float> g = {1, -2, 0.5f * static_cast<float>(step), 0, 3, 1};
    give(matrix, g);
    give(bias, {0.5f});
    give(bias_alone, {0.5f});
    muon.step(0.01);
    adam.step(0.01);
    const at::Tensor gradient = at::tensor(g).reshape({2, 3});
    m = 0.5 * m + gradient;
    x = x * (1 - 0.01 * 0.1) - 0.01 * 0.2 * std::sqrt(3.0) * orthogonalised(gradient + 0.5 * m);
    EXPECT_LT((matrix.detach() - x).abs().max().item<float>(), 1e-5f);
    EXPECT_EQ(at_index(bias, 0), at_index(bias_alone, 0));
  }
  EXPECT_EQ(muon.second()[0].abs().sum().item<float>(), 0.0f);
}

}  // namespace
}  // namespace clover
