// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "speculation/speculators/package.h"

namespace clover {

struct InitOptions {
  std::string type = "clover2";  // a preset, "eagle", or "clover" with `switches`
  std::optional<CloverConfig> switches = {};
  int64_t heads = 0;                       // 0: the preset's
  int64_t draft_vocab = 0;                 // tokens; 0: 8192 or the whole vocabulary, which is less
  std::vector<int32_t> draft_tokens = {};  // instead of draft_vocab: which; empty: the lowest ids
  uint64_t seed = 0;
  DType weights = DType::kQ8_0;
  float noise = 0.01f;  // of the papers' noise, U(0, noise); 0: exact identities and zeros
  // Layers begin as any layer does, matrices at U(-1, 1) / sqrt(inputs), norms but the heads' at 1,
  // instead of as copies: the target's last layer expects states of the target's own scale.
  bool fresh_layers = false;
};

// An untrained speculator for a model, by default as the papers begin: copied layers are the
// target's last layer, the rest identity, small noise or zero (package_layout()). A function of the
// model and the options alone. Lowest ids are the most frequent tokens of vocabularies that were
// built by merging pairs. Errors: kInvalidArgument (options, by name), kUnsupported (weights that
// the model's shape cannot be held in).
Package init_package(const Checkpoint& target, const InitOptions& options);

}  // namespace clover
