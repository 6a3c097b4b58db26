// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "train/recipe.h"

namespace clover {

// What the M rows of a head are to say.
struct HeadTargets {
  TokenLoss kind = TokenLoss::kText;
  std::vector<int64_t> truth;        // [M] draft id of the text's token, -1: it has none
  at::Tensor teacher;                // [U, draft vocabulary] q; unused by kText
  std::vector<int64_t> teacher_row;  // [M] row of `teacher`; unused by kText
  std::vector<float> weights;        // [M] of each row's loss; rows of weight 0 get no gradient
};

struct HeadLoss {
  at::Tensor total;           // sum of weight * loss; backward() reaches what `normed` came from
  std::vector<float> loss;    // [M] 0 where kText has no truth
  std::vector<uint8_t> top1;  // [M] whether the text's token is the likeliest
  std::vector<uint8_t> top5;  // [M] or among the five likeliest
};

// The loss of rows `normed` [M, D] behind the LM head `head` {draft vocabulary, D}. Logits exist
// for a few rows at a time only; where gradients are recorded they are made as the logits go by
// (for `head` too if it requires them). Error(kInvalidArgument) when sizes differ or an id is
// outside.
HeadLoss head_loss(const at::Tensor& normed, const at::Tensor& head, const HeadTargets& targets);

// The target's distribution over the draft vocabulary, in bfloat16: [U, draft vocabulary]. `normed`
// [U, D] is what its LM head multiplies.
at::Tensor teacher_probabilities(const at::Tensor& normed, const at::Tensor& head);

}  // namespace clover
