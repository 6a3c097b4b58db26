// SPDX-License-Identifier: Apache-2.0
#include "train/torch/optimiser.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "train/torch/orthogonal.h"

namespace clover {
namespace {

// Root mean square of AdamW's steps, over the rate (arXiv 2502.16982, section 2.2).
constexpr double kStepSize = 0.2;

}  // namespace

Optimiser::Optimiser(std::vector<at::Tensor> parameters, const Recipe& recipe,
                     at::ScalarType products)
    : parameters_(std::move(parameters)),
      kind_(recipe.optimiser),
      products_(products),
      momentum_(recipe.momentum),
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

void Optimiser::clear_gradients() {
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad() = at::Tensor();
}

std::vector<at::Tensor> Optimiser::gradients() const {
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters_.size());
  for (const at::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
  return gradients;
}

void Optimiser::set_gradients(const std::vector<at::Tensor>& gradients) {
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = gradients[i];
}

void Optimiser::adamw(size_t i, const at::Tensor& gradient, double rate) {
  const double correct1 = 1 - std::pow(beta1_, static_cast<double>(steps_));
  const double correct2 = 1 - std::pow(beta2_, static_cast<double>(steps_));
  first_[i].mul_(beta1_).add_(gradient, 1 - beta1_);
  second_[i].mul_(beta2_).addcmul_(gradient, gradient, 1 - beta2_);
  const at::Tensor size = (second_[i] / correct2).sqrt_().add_(epsilon_);
  parameters_[i].addcdiv_(first_[i], size, -rate / correct1);
}

void Optimiser::muon(size_t i, const at::Tensor& gradient, double rate) {
  first_[i].mul_(momentum_).add_(gradient);
  const at::Tensor ahead = gradient.add(first_[i], momentum_);  // Nesterov's
  // An orthogonal matrix has entries of root mean square 1 / sqrt(longer side).
  const auto side = static_cast<double>(std::max(ahead.size(0), ahead.size(1)));
  parameters_[i].add_(orthogonalised(ahead, products_), -rate * kStepSize * std::sqrt(side));
}

double Optimiser::step(double rate) {
  const at::NoGradGuard no_grad;
  double squares = 0;
  for (const at::Tensor& parameter : parameters_)
    if (parameter.grad().defined())
      squares += parameter.grad().to(at::kDouble).square().sum().item<double>();
  const double length = std::sqrt(squares);
  if (!std::isfinite(length)) return length;
  ++steps_;
  const double shrink = clip_norm_ > 0 && length > clip_norm_ ? clip_norm_ / length : 1.0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& parameter = parameters_[i];
    at::Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (clip_value_ > 0) gradient.clamp_(-clip_value_, clip_value_);
    if (shrink < 1) gradient.mul_(shrink);
    if (parameter.dim() > 1 && decay_ > 0) parameter.mul_(1 - rate * decay_);
    if (kind_ == OptimiserKind::kMuon && parameter.dim() == 2)
      muon(i, gradient, rate);
    else
      adamw(i, gradient, rate);
  }
  clear_gradients();
  return length;
}

}  // namespace clover
