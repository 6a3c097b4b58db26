// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/torch/torch_values.h"

namespace clover {

// What attention works with: [R, H*d], [R, G*d] and [R, G*d].
struct AttentionRows {
  const at::Tensor& q;
  const at::Tensor& k;
  const at::Tensor& v;
};

// Backend::attention over ATen: [R, H*d].
at::Tensor torch_attention(const AttentionRows& rows, TorchKvStore& kv, int64_t layer,
                           const AttentionPlan& plan, const AttentionParams& params);

}  // namespace clover
