// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

namespace clover {

// A matrix [m, n] brought near the closest one whose singular values are all 1: five rounds of the
// Newton-Schulz iteration with the coefficients of Muon (Jordan et al. 2024), which leave them
// between about 0.7 and 1.2. Products are taken in `type`, bfloat16 suffices. A matrix of zeros
// stays one. float32.
at::Tensor orthogonalised(const at::Tensor& matrix, at::ScalarType type = at::kFloat);

}  // namespace clover
