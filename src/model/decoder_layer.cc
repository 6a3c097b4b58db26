// SPDX-License-Identifier: Apache-2.0
#include "model/decoder_layer.h"

#include <cmath>
#include <utility>

namespace clover {
namespace {

AttentionParams attention_params(const ModelConfig& c, const std::vector<float>& alibi) {
  return {.heads = c.heads,
          .kv_heads = c.kv_heads,
          .head_dim = c.head_dim,
          .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim))),
          .window = c.window,
          .alibi_slopes = alibi};
}

Tensor rotate(const DecoderPass& p, Tensor x, int64_t heads) {
  if (!p.config.rope) return x;
  const RopeLayout layout = p.config.rope_adjacent ? RopeLayout::kAdjacent : RopeLayout::kHalves;
  return p.backend.rope(std::move(x), heads, p.config.head_dim, p.angles, layout);
}

}  // namespace

DecoderPass make_decoder_pass(const Model& model, KvStore& kv, const AttentionPlan& plan) {
  const ModelWeights& w = model.weights();
  return {model.config(),
          model.backend(),
          kv,
          plan,
          attention_params(model.config(), w.alibi),
          rope_angles(w.rope, plan.position)};
}

Tensor attention_block(const DecoderPass& p, const LayerWeights& w, int64_t layer,
                       const Tensor& x) {
  const ModelConfig& c = p.config;
  Backend& b = p.backend;
  const int64_t q_cols = c.heads * c.head_dim;
  const int64_t kv_cols = c.kv_heads * c.head_dim;
  Tensor qkv = w.attention_norm
                   ? b.norm_linear(x, *w.attention_norm, c.norm_eps, *w.qkv, w.qkv_bias.get())
                   : b.linear(x, *w.qkv, w.qkv_bias.get());
  Tensor q, k;
  if (w.q_norm) {
    q = rotate(p, b.rms_norm(b.columns(qkv, 0, q_cols), *w.q_norm, c.norm_eps), c.heads);
    k = rotate(p, b.rms_norm(b.columns(qkv, q_cols, kv_cols), *w.k_norm, c.norm_eps), c.kv_heads);
  } else {
    qkv = rotate(p, std::move(qkv), c.heads + c.kv_heads);  // q and k are neighbours
    q = b.columns(qkv, 0, q_cols);
    k = b.columns(qkv, q_cols, kv_cols);
  }
  const Tensor v = b.columns(qkv, q_cols + kv_cols, kv_cols);
  const Tensor attended = b.attention(q, k, v, p.kv, layer, p.plan, p.attention);
  return b.linear(attended, *w.output, nullptr, &x);
}

Tensor ffn_block(const DecoderPass& p, const LayerWeights& w, const Tensor& x) {
  Backend& b = p.backend;
  const Tensor gate_up = b.norm_linear(x, *w.ffn_norm, p.config.norm_eps, *w.gate_up);
  return b.swiglu_linear(gate_up, *w.down, &x);
}

}  // namespace clover
