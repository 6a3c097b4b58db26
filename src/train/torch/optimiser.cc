// SPDX-License-Identifier: Apache-2.0
#include "train/torch/optimiser.h"

#include <cmath>
#include <utility>

namespace clover {

AdamW::AdamW(std::vector<at::Tensor> parameters, const Recipe& recipe)
    : parameters_(std::move(parameters)),
      beta1_(recipe.beta1),
      beta2_(recipe.beta2),
      epsilon_(recipe.epsilon),
      decay_(recipe.weight_decay),
      clip_value_(recipe.clip_value),
      clip_norm_(recipe.clip_norm) {
  first_.reserve(parameters_.size());
  second_.reserve(parameters_.size());
  for (const at::Tensor& parameter : parameters_) {
    first_.push_back(at::zeros_like(parameter, at::TensorOptions().requires_grad(false)));
    second_.push_back(at::zeros_like(parameter, at::TensorOptions().requires_grad(false)));
  }
}

void AdamW::clear_gradients() {
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad() = at::Tensor();
}

double AdamW::step(double rate) {
  const at::NoGradGuard no_grad;
  double squares = 0;
  for (const at::Tensor& parameter : parameters_)
    if (parameter.grad().defined())
      squares += parameter.grad().to(at::kDouble).square().sum().item<double>();
  const double length = std::sqrt(squares);
  if (!std::isfinite(length)) return length;
  ++steps_;
  const double shrink = clip_norm_ > 0 && length > clip_norm_ ? clip_norm_ / length : 1.0;
  const double correct1 = 1 - std::pow(beta1_, static_cast<double>(steps_));
  const double correct2 = 1 - std::pow(beta2_, static_cast<double>(steps_));
  for (size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& parameter = parameters_[i];
    at::Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (clip_value_ > 0) gradient.clamp_(-clip_value_, clip_value_);
    if (shrink < 1) gradient.mul_(shrink);
    first_[i].mul_(beta1_).add_(gradient, 1 - beta1_);
    second_[i].mul_(beta2_).addcmul_(gradient, gradient, 1 - beta2_);
    if (parameter.dim() > 1 && decay_ > 0) parameter.mul_(1 - rate * decay_);
    const at::Tensor size = (second_[i] / correct2).sqrt_().add_(epsilon_);
    parameter.addcdiv_(first_[i], size, -rate / correct1);
  }
  clear_gradients();
  return length;
}

}  // namespace clover
