// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "model/decoder_layer.h"
#include "speculation/speculators/clover_config.h"
#include "speculation/speculators/draft_head.h"

namespace clover {

// One step of drafting: an attention decoder and the projector of its head.
struct CloverStep {
  // The decoder, none where h_side is null. What multiplies the embedding is stacked, the
  // projector's part last, since it shares its input.
  VectorPtr norm;    // [D] of the state, cosine only
  MatrixPtr h_side;  // {D, D}: q, or W's part for the state
  VectorPtr h_bias;  // [D], q's (cosine) or the decoder's only one
  MatrixPtr e_side;  // k and v (cosine) or W's part for e; then the projector's part for e; or null
  VectorPtr e_bias;  // [e_side rows], zero but for k and v
  MatrixPtr projector;       // {D, D} the part for the state
  VectorPtr projector_bias;  // [D]
  VectorPtr head_norm;       // [D] or null
};

// Everything that is trained, and the target's parts that it works with. Immutable.
struct CloverWeights {
  CloverConfig config;
  VectorPtr hidden_norm;     // [D] of the features, or null
  VectorPtr embedding_norm;  // [D] of embeddings, or null
  VectorPtr unit_rows;       // [D] of 1 / sqrt(D): scales embeddings to unit length, or null
  std::vector<LayerWeights> block;
  VectorPtr block_norm;  // [D], null without a block
  std::vector<CloverStep> steps;
  DraftHead head;
  MatrixPtr embedding;  // {V, D} the target's LM head
  int64_t bytes() const;
};

// The mathematics of the Clover family over the operations of a backend; rows never touch.
class CloverNetwork {
 public:
  // Both must outlive it.
  CloverNetwork(const CloverWeights& weights, const Model& target)
      : w_(weights), target_(target), backend_(target.backend()) {}

  // Embeddings of tokens as the decoders take them: [R, D].
  Tensor embed(std::span<const int32_t> tokens) const;
  // Features of the plan's rows and the token behind each to the states behind the block. Layer i
  // of the block stores its keys and values as layer i of `kv`.
  Tensor base(const Tensor& hidden, std::span<const int32_t> next, KvStore& kv,
              const AttentionPlan& plan) const;
  // State and head input of step `step` from the states before it. With `merged` the states
  // have been through the step's decoder already.
  struct Out {
    Tensor state;
    HeadInput head;
  };
  Out advance(int64_t step, const Tensor& before, std::span<const int32_t> tokens,
              bool merged) const;

 private:
  Tensor merge(const CloverStep& step, const Tensor& h, const Tensor& side) const;
  HeadInput project(const CloverStep& step, const Tensor& state, const Tensor* side) const;

  const CloverWeights& w_;
  const Model& target_;
  Backend& backend_;
};

}  // namespace clover
