// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace clover {

// How a head's distribution p over the draft vocabulary is judged.
enum class LossKind {
  kHard,       // -log p(token of the text)
  kSoft,       // -sum(q log p): cross entropy with the target's distribution q
  kOverlap,    // 1 - sum(min(p, q)): what speculative sampling would reject
  kLogOverlap  // -log(sum(min(p, q)))
};

// What the M rows of a head are to say.
struct HeadTargets {
  LossKind kind = LossKind::kHard;
  std::vector<int64_t> truth;        // [M] draft id of the text's token, -1: it has none
  at::Tensor teacher;                // [U, draft vocabulary] q; unused by kHard
  std::vector<int64_t> teacher_row;  // [M] row of `teacher`; unused by kHard
  std::vector<float> weights;        // [M] of each row's loss; rows of weight 0 get no gradient
};

struct HeadLoss {
  at::Tensor total;           // sum of weight * loss; backward() reaches what `normed` came from
  std::vector<float> loss;    // [M] 0 where kHard has no truth
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
