// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <vector>

#include "train/recipe.h"

namespace clover {

// AdamW with decoupled weight decay (arXiv 1711.05101) on float32 masters; matrices decay, vectors
// (norms, biases) do not. Moments live here and are part of a run's state.
class AdamW {
 public:
  // The parameters' gradients are read and cleared by step(); the tensors are changed in place.
  AdamW(std::vector<at::Tensor> parameters, const Recipe& recipe);

  // Clips as the recipe says, takes one step and clears the gradients. Parameters without a
  // gradient stay as they are. Returns the length of the gradient before clipping; when that is not
  // finite nothing is changed.
  double step(double rate);
  void clear_gradients();

  // [parameters] first and second moments, and steps taken.
  std::vector<at::Tensor>& first() { return first_; }
  std::vector<at::Tensor>& second() { return second_; }
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }

 private:
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> first_;
  std::vector<at::Tensor> second_;
  int64_t steps_ = 0;
  double beta1_;
  double beta2_;
  double epsilon_;
  double decay_;
  double clip_value_;
  double clip_norm_;
};

}  // namespace clover
