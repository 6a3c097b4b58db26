// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/model.h"
#include "model/weights.h"

namespace clover {

// What all decoder layers of one pass share. The referenced objects must outlive it.
struct DecoderPass {
  const ModelConfig& config;
  Backend& backend;
  KvStore& kv;  // of the target, or a speculator's own
  const AttentionPlan& plan;
  AttentionParams attention;
  RopeAngles angles;
};

// A pass of layers shaped as the model's over the plan's rows.
DecoderPass make_decoder_pass(const Model& model, KvStore& kv, const AttentionPlan& plan);

// x + Wo attention(q, k, v) with q, k and v from the normalised x: [R, D]. `layer` is the layer of
// the store. A layer without attention_norm takes x as it is.
Tensor attention_block(const DecoderPass& pass, const LayerWeights& w, int64_t layer,
                       const Tensor& x);

// x + Wdown (silu(Wgate h) * Wup h) with h the normalised x: [R, D].
Tensor ffn_block(const DecoderPass& pass, const LayerWeights& w, const Tensor& x);

}  // namespace clover
