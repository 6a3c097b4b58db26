// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "speculation/speculators/package_config.h"

namespace clover {

// What a tensor holds before any training. `noise` is uniform in (0, 0.01).
enum class Start {
  kZero,
  kOne,
  kNoise,
  kIdentity,    // [I | 0] + noise
  kFinalNorm,   // the target's final norm
  kLayer,       // the target's last layer, the part that the name ends with
  kLayerNoise,  // uniform in (-1, 1) / sqrt(inputs), instead of kLayer
};

struct TensorLayout {
  std::string name;
  std::vector<int64_t> shape;
  Start start;
};

// The tensors of a package but `d2t` and `lm_head.weight`, in file order. The configuration has
// been validated.
std::vector<TensorLayout> package_layout(const PackageConfig& config, const ModelConfig& target);

// The tensors of a layer shaped as the target's, named PREFIX "qkv.weight" …. `attention` and `ffn`
// say which halves there are, `input_norm` whether the first half begins with a norm.
struct LayerParts {
  bool attention = true;
  bool ffn = true;
  bool input_norm = true;
};
void append_layer(std::vector<TensorLayout>& tensors, const std::string& prefix,
                  const LayerParts& parts, const ModelConfig& target);

}  // namespace clover
