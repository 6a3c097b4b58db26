// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/package_layout.h"

#include "base/error.h"

namespace clover {
namespace {

void append_step(std::vector<TensorLayout>& tensors, const CloverConfig& c, int64_t step,
                 int64_t hidden) {
  const std::string prefix = fmt::format("steps.{}.", step);
  const auto add = [&](const char* name, std::vector<int64_t> shape, Start start) {
    tensors.push_back({prefix + name, std::move(shape), start});
  };
  if (c.has_decoder(step) && c.decoder == DecoderKind::kCosine) {
    add("decoder.norm.weight", {hidden}, Start::kOne);
    add("decoder.q.weight", {hidden, hidden}, Start::kIdentity);
    add("decoder.q.bias", {hidden}, Start::kZero);
    add("decoder.k.weight", {hidden, hidden}, Start::kIdentity);
    add("decoder.k.bias", {hidden}, Start::kZero);
    add("decoder.v.weight", {hidden, hidden}, Start::kNoise);
    add("decoder.v.bias", {hidden}, Start::kZero);
  } else if (c.has_decoder(step)) {
    add("decoder.weight", {hidden, 2 * hidden},
        c.decoder == DecoderKind::kMlp ? Start::kNoise : Start::kIdentity);
    add("decoder.bias", {hidden}, Start::kZero);
  }
  // A residual block that begins as nothing, or the identity.
  add("projector.weight", {hidden, c.projects_embedding(step) ? 2 * hidden : hidden},
      c.projector == ProjectorKind::kResblock ? Start::kZero : Start::kIdentity);
  add("projector.bias", {hidden}, Start::kZero);
  if (c.head_norm) add("head_norm.weight", {hidden}, Start::kFinalNorm);
}

}  // namespace

void append_layer(std::vector<TensorLayout>& tensors, const std::string& prefix,
                  const LayerParts& parts, const ModelConfig& m) {
  const auto add = [&](const char* name, std::vector<int64_t> shape) {
    tensors.push_back({prefix + name, std::move(shape), Start::kLayer});
  };
  const int64_t q_rows = m.heads * m.head_dim;
  const int64_t qkv_rows = q_rows + 2 * m.kv_heads * m.head_dim;
  if (parts.attention) {
    if (parts.input_norm) add("attention_norm.weight", {m.hidden});
    add("qkv.weight", {qkv_rows, m.hidden});
    if (m.qkv_bias) add("qkv.bias", {qkv_rows});
    if (m.qk_norm) {
      add("q_norm.weight", {m.head_dim});
      add("k_norm.weight", {m.head_dim});
    }
    add("output.weight", {m.hidden, q_rows});
  }
  if (parts.ffn) {
    add("ffn_norm.weight", {m.hidden});
    add("gate_up.weight", {2 * m.intermediate, m.hidden});
    add("down.weight", {m.hidden, m.intermediate});
  }
}

std::vector<TensorLayout> package_layout(const PackageConfig& config, const ModelConfig& target) {
  const int64_t hidden = target.hidden;
  std::vector<TensorLayout> tensors;
  if (config.eagle()) {
    tensors.push_back({"fc.weight", {hidden, 2 * hidden}, Start::kIdentity});
    tensors.push_back({"fc.bias", {hidden}, Start::kZero});
    append_layer(tensors, "layer.", {.input_norm = false}, target);
    return tensors;
  }
  const CloverConfig& c = config.clover;
  if (c.input_norm) {
    tensors.push_back({"hidden_norm.weight", {hidden}, Start::kFinalNorm});
    tensors.push_back({"embedding_norm.weight", {hidden}, Start::kOne});
  }
  const LayerParts parts = {.attention = c.has_attention(),
                            .ffn = c.block == BlockKind::kMlp || c.block == BlockKind::kFull};
  for (int64_t i = 0; i < c.block_layers; ++i)
    append_layer(tensors, fmt::format("block.{}.", i), parts, target);
  if (c.block != BlockKind::kNone)
    tensors.push_back({"block_norm.weight", {hidden}, Start::kFinalNorm});
  for (int64_t j = 0; j < c.steps(); ++j) append_step(tensors, c, j, hidden);
  return tensors;
}

}  // namespace clover
