// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <vector>

#include "train/recipe.h"

namespace clover {

// The recipe's optimiser on float32 masters, with decoupled weight decay (arXiv 1711.05101):
// matrices decay, vectors (norms, biases) do not. Moments live here and are part of a run's state.
class Optimiser {
 public:
  // The parameters' gradients are read and cleared by step(); the tensors are changed in place.
  // Muon's products are taken in `products`.
  Optimiser(std::vector<at::Tensor> parameters, const Recipe& recipe,
            at::ScalarType products = at::kFloat);

  // Clips as the recipe says, takes one step and clears the gradients. Parameters without a
  // gradient stay as they are. Returns the length of the gradient before clipping; when that is not
  // finite nothing is changed.
  double step(double rate);
  void clear_gradients();
  // The gradients in the order of the parameters, undefined where there is none.
  std::vector<at::Tensor> gradients() const;
  void set_gradients(const std::vector<at::Tensor>& gradients);

  // [parameters] first and second moments, and steps taken. Muon leaves the second moments of
  // matrices at 0.
  std::vector<at::Tensor>& first() { return first_; }
  std::vector<at::Tensor>& second() { return second_; }
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }

 private:
  void adamw(size_t i, const at::Tensor& gradient, double rate);
  void muon(size_t i, const at::Tensor& gradient, double rate);

  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> first_;
  std::vector<at::Tensor> second_;
  int64_t steps_ = 0;
  OptimiserKind kind_;
  at::ScalarType products_;
  double momentum_;
  double beta1_;
  double beta2_;
  double epsilon_;
  double decay_;
  double clip_value_;
  double clip_norm_;
};

}  // namespace clover
