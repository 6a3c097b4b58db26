// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/clover_network.h"

namespace clover {
namespace {

constexpr float kUnitEps = 1e-12f;

int64_t matrix_bytes(const MatrixPtr& m) { return m ? m->bytes() : 0; }

}  // namespace

int64_t CloverWeights::bytes() const {
  int64_t total = matrix_bytes(head.matrix == embedding ? nullptr : head.matrix);
  for (const LayerWeights& layer : block) {
    for (const MatrixPtr& m : {layer.qkv, layer.output, layer.gate_up, layer.down})
      total += matrix_bytes(m);
  }
  for (const CloverStep& step : steps) {
    for (const MatrixPtr& m : {step.h_side, step.e_side, step.projector}) total += matrix_bytes(m);
  }
  return total;
}

Tensor CloverNetwork::embed(std::span<const int32_t> tokens) const {
  Tensor e = backend_.embed(*w_.embedding, tokens);
  if (w_.unit_rows) e = backend_.rms_norm(e, *w_.unit_rows, kUnitEps);
  if (w_.embedding_norm) e = backend_.rms_norm(e, *w_.embedding_norm, target_.config().norm_eps);
  return e;
}

// `side` is what e_side made of the embeddings.
Tensor CloverNetwork::merge(const CloverStep& step, const Tensor& h, const Tensor& side) const {
  Backend& b = backend_;
  const int64_t cols = h.cols();
  if (w_.config.decoder == DecoderKind::kCosine) {
    const Tensor q =
        b.norm_linear(h, *step.norm, target_.config().norm_eps, *step.h_side, step.h_bias.get());
    return b.cosine_gate(q, b.columns(side, 0, cols), b.columns(side, cols, cols),
                         w_.config.decoder_heads, &h);
  }
  const Tensor from_e = b.columns(side, 0, cols);
  const Tensor mixed = b.linear(h, *step.h_side, step.h_bias.get(), &from_e);
  return w_.config.decoder == DecoderKind::kMlp ? b.silu(mixed, &h) : mixed;
}

// `side` is the projector's part of what e_side made, or null.
HeadInput CloverNetwork::project(const CloverStep& step, const Tensor& state,
                                 const Tensor* side) const {
  Backend& b = backend_;
  Tensor y = b.linear(state, *step.projector, step.projector_bias.get(), side);
  if (w_.config.projector == ProjectorKind::kResblock) y = b.silu(y, &state);
  return {y, step.head_norm.get(), target_.config().norm_eps};
}

Tensor CloverNetwork::base(const Tensor& hidden, std::span<const int32_t> next, KvStore& kv,
                           const AttentionPlan& plan) const {
  Backend& b = backend_;
  const float eps = target_.config().norm_eps;
  Tensor x = w_.hidden_norm ? b.rms_norm(hidden, *w_.hidden_norm, eps) : hidden;
  if (w_.config.decoder_first) {
    const CloverStep& step = w_.steps.front();
    x = merge(step, x, b.linear(embed(next), *step.e_side, step.e_bias.get()));
  }
  if (w_.block.empty()) return x;
  const DecoderPass pass = make_decoder_pass(target_, kv, plan);
  for (size_t i = 0; i < w_.block.size(); ++i) {
    const LayerWeights& layer = w_.block[i];
    if (layer.qkv) x = attention_block(pass, layer, static_cast<int64_t>(i), x);
    if (layer.gate_up) x = ffn_block(pass, layer, x);
  }
  return b.rms_norm(x, *w_.block_norm, eps);
}

CloverNetwork::Out CloverNetwork::advance(int64_t index, const Tensor& before,
                                          std::span<const int32_t> tokens, bool merged) const {
  Backend& b = backend_;
  const CloverStep& step = w_.steps[static_cast<size_t>(index)];
  const bool decodes = step.h_side && !merged;
  const bool projects = w_.config.projects_embedding(index);
  Out out{before, {}};
  Tensor side;
  if (decodes || projects) side = b.linear(embed(tokens), *step.e_side, step.e_bias.get());
  if (decodes) out.state = merge(step, before, side);
  const Tensor for_head =
      projects ? b.columns(side, side.cols() - before.cols(), before.cols()) : Tensor();
  out.head = project(step, out.state, projects ? &for_head : nullptr);
  return out;
}

}  // namespace clover
