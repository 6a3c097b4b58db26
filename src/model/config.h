// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace clover {

struct RopeScaling {
  enum class Kind { kNone, kLinear, kLlama3, kYarn };
  Kind kind = Kind::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0;          // llama3
  double high_freq_factor = 4.0;         // llama3
  int64_t original_context = 0;          // llama3, yarn
  double beta_fast = 32.0;               // yarn
  double beta_slow = 1.0;                // yarn
  double attention_factor = 0.0;         // yarn; 0: the default 0.1 ln(factor) + 1
  std::vector<float> frequency_factors;  // GGUF rope_freqs.weight (llama3 written out), or empty
};

// A decoder-only transformer of the Llama family, whatever file it came from.
struct ModelConfig {
  std::string architecture;  // "llama", "mistral", "qwen2", "qwen3", "baichuan"
  std::string name;          // for people
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t intermediate = 0;
  int64_t vocab = 0;
  int64_t context = 0;  // positions the model was trained for
  float norm_eps = 1e-5f;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  bool rope = true;              // false: ALiBi (Baichuan 13B)
  bool rope_adjacent = false;    // GGUF "llama" files permute q and k for adjacent pairs
  int64_t window = 0;            // sliding window, 0: none
  bool tied_head = false;        // LM head = token embedding
  bool normalised_head = false;  // Baichuan 2: rows of the LM head are scaled to unit length
  bool qkv_bias = false;         // Qwen2
  bool qk_norm = false;          // Qwen3
};

// 0.1 ln(factor) + 1, by which YaRN scales cos and sin; 1 for factors up to 1.
double default_yarn_attention_factor(double factor);

// From GGUF metadata or config.json. Errors: kUnsupported (architecture, RoPE scaling, activation …
// by name), kCorrupt (missing or impossible value, by key).
ModelConfig read_model_config(const Checkpoint& checkpoint);

}  // namespace clover
