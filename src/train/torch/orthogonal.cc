// SPDX-License-Identifier: Apache-2.0
#include "train/torch/orthogonal.h"

namespace clover {
namespace {

constexpr int kRounds = 5;
// Chosen there so that small singular values grow fastest; they need not end at 1.
constexpr double kLinear = 3.4445;
constexpr double kCubic = -4.7750;
constexpr double kQuintic = 2.0315;
constexpr double kLeastNorm = 1e-20;

}  // namespace

at::Tensor orthogonalised(const at::Tensor& matrix, at::ScalarType type) {
  const bool tall = matrix.size(0) > matrix.size(1);
  // The smaller side is the side of the square products.
  at::Tensor x = tall ? matrix.t() : matrix;
  x = (x / x.norm().clamp_min(kLeastNorm)).to(type);
  for (int round = 0; round < kRounds; ++round) {
    const at::Tensor square = at::mm(x, x.t());
    const at::Tensor mix = at::addmm(square, square, square, kCubic, kQuintic);
    x = at::addmm(x, mix, x, kLinear, 1.0);
  }
  if (tall) x = x.t();
  return x.to(at::kFloat);
}

}  // namespace clover
