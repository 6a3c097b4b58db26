// SPDX-License-Identifier: Apache-2.0
#include "model/config.h"

#include <cmath>

#include "base/error.h"
#include "model/config_source.h"

namespace clover {
namespace {

// How the values must fit together; each one alone was checked when it was read.
void check_shape(const ModelConfig& c, const std::string& path) {
  if (c.heads % c.kv_heads != 0) {
    fail(ErrorCode::kCorrupt, "{}: {} attention heads do not divide among {} key/value heads", path,
         c.heads, c.kv_heads);
  }
  if (c.rope && c.head_dim % 2 != 0) {
    fail(ErrorCode::kCorrupt, "{}: rotary positions need an even head size, not {}", path,
         c.head_dim);
  }
  if (c.heads * c.head_dim > kMaxWidth) {
    fail(ErrorCode::kCorrupt, "{}: {} heads of size {} are too wide", path, c.heads, c.head_dim);
  }
}

void check_scaling(const ModelConfig& c, const std::string& path) {
  const RopeScaling& s = c.rope_scaling;
  if (s.kind == RopeScaling::Kind::kLlama3 && !(s.low_freq_factor < s.high_freq_factor)) {
    fail(ErrorCode::kCorrupt, "{}: RoPE low_freq_factor {} is not below high_freq_factor {}", path,
         s.low_freq_factor, s.high_freq_factor);
  }
  if (s.kind == RopeScaling::Kind::kYarn && !(s.beta_slow < s.beta_fast)) {
    fail(ErrorCode::kCorrupt, "{}: RoPE beta_slow {} is not below beta_fast {}", path, s.beta_slow,
         s.beta_fast);
  }
  if (s.frequency_factors.empty()) return;
  if (static_cast<int64_t>(s.frequency_factors.size()) * 2 != c.head_dim) {
    fail(ErrorCode::kCorrupt, "{}: tensor 'rope_freqs.weight' has {} values, expected {}", path,
         s.frequency_factors.size(), c.head_dim / 2);
  }
  for (const float factor : s.frequency_factors) {
    if (!std::isfinite(factor) || factor <= 0.0f) {
      fail(ErrorCode::kCorrupt, "{}: tensor 'rope_freqs.weight' holds {}, which is not positive",
           path, factor);
    }
  }
}

}  // namespace

double default_yarn_attention_factor(double factor) {
  return factor <= 1.0 ? 1.0 : 0.1 * std::log(factor) + 1.0;
}

ModelConfig read_model_config(const Checkpoint& checkpoint) {
  ModelConfig config = checkpoint.format() == Checkpoint::Format::kGguf
                           ? read_gguf_config(checkpoint)
                           : read_hf_config(checkpoint);
  check_shape(config, checkpoint.path());
  check_scaling(config, checkpoint.path());
  return config;
}

}  // namespace clover
