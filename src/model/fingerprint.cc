// SPDX-License-Identifier: Apache-2.0
#include "model/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/error.h"
#include "checkpoint/digest.h"

namespace clover {
namespace {

constexpr int64_t kPieces = 16;  // samples of a tensor
constexpr int64_t kPieceBytes = 64;

void add(std::string& text, const MappedTensor& tensor, const Checkpoint& checkpoint) {
  const WeightView& view = tensor.view;
  text += fmt::format("{} {} {} {}\n", tensor.name, dtype_name(view.type), view.rows, view.cols);
  const int64_t size = *byte_size(view.type, view.rows * view.cols);
  const int64_t piece = std::min(kPieceBytes, size);
  for (int64_t i = 0; i < kPieces; ++i) {
    const int64_t at = (size - piece) / (kPieces - 1) * i;
    text.append(reinterpret_cast<const char*>(view.data + at), static_cast<size_t>(piece));
  }
  // A sample brings 64 KiB around it into memory: 32 MB for the default model.
  if (const TensorInfo* info = checkpoint.find(tensor.name)) checkpoint.release(*info);
}

}  // namespace

std::string model_fingerprint(const ModelConfig& c, const ModelTensors& tensors,
                              const Checkpoint& checkpoint) {
  std::string text = fmt::format("clover target 1\n{} {} {} {} {} {} {} {} {} {}\n", c.architecture,
                                 c.layers, c.hidden, c.heads, c.kv_heads, c.head_dim,
                                 c.intermediate, c.vocab, c.rope_adjacent, c.rope_theta);
  add(text, tensors.embedding, checkpoint);
  for (const MappedTensor& head : tensors.head) add(text, head, checkpoint);
  add(text, tensors.final_norm, checkpoint);
  for (const LayerTensors& layer : tensors.layers) {
    add(text, layer.qkv.front(), checkpoint);
    add(text, layer.down, checkpoint);
  }
  return sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
}

std::string model_fingerprint(const Checkpoint& checkpoint) {
  const ModelConfig config = read_model_config(checkpoint);
  return model_fingerprint(config, map_tensors(checkpoint, config), checkpoint);
}

}  // namespace clover
