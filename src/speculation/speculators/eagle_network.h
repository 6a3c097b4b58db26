// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "model/decoder_layer.h"
#include "speculation/speculators/draft_head.h"

namespace clover {

// EAGLE-1: W [feature; embedding of the token behind it] + b, then one decoder layer without a norm
// on its input, gives the next token's feature. Immutable.
struct EagleWeights {
  MatrixPtr h_side;  // {D, D} W's part for the feature
  MatrixPtr e_side;  // {D, D} and for the embedding
  VectorPtr bias;    // [D]
  LayerWeights layer;
  DraftHead head;       // over the target's final norm
  MatrixPtr embedding;  // {V, D} the target's token embedding
  int64_t heads = 0;    // trained depth
};

// The mathematics of EAGLE-1 over the operations of a backend.
class EagleNetwork {
 public:
  // Both must outlive it.
  EagleNetwork(const EagleWeights& weights, const Model& target) : w_(weights), target_(target) {}

  // Features [R, D] of the plan's rows, true or drafted, and the tokens behind them to the features
  // of those tokens: [R, D].
  Tensor next_feature(const Tensor& features, std::span<const int32_t> next, KvStore& kv,
                      const AttentionPlan& plan) const;
  // A feature on its way into the LM head.
  HeadInput head_input(const Tensor& feature) const;

 private:
  const EagleWeights& w_;
  const Model& target_;
};

}  // namespace clover
