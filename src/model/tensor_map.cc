// SPDX-License-Identifier: Apache-2.0
#include "model/tensor_map.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.h"

namespace clover {
namespace {

// The names of one file format. Layer tensors stand behind LAYER_PREFIX N "." and end in ".weight"
// or ".bias".
struct Naming {
  std::string_view embedding, final_norm, head, layer_prefix;
  std::string_view attention_norm, q, k, v, output, q_norm, k_norm, ffn_norm, gate, up, down;
};

constexpr Naming kGgufNames = {.embedding = "token_embd",
                               .final_norm = "output_norm",
                               .head = "output",
                               .layer_prefix = "blk.",
                               .attention_norm = "attn_norm",
                               .q = "attn_q",
                               .k = "attn_k",
                               .v = "attn_v",
                               .output = "attn_output",
                               .q_norm = "attn_q_norm",
                               .k_norm = "attn_k_norm",
                               .ffn_norm = "ffn_norm",
                               .gate = "ffn_gate",
                               .up = "ffn_up",
                               .down = "ffn_down"};

constexpr Naming kHfNames = {.embedding = "model.embed_tokens",
                             .final_norm = "model.norm",
                             .head = "lm_head",
                             .layer_prefix = "model.layers.",
                             .attention_norm = "input_layernorm",
                             .q = "self_attn.q_proj",
                             .k = "self_attn.k_proj",
                             .v = "self_attn.v_proj",
                             .output = "self_attn.o_proj",
                             .q_norm = "self_attn.q_norm",
                             .k_norm = "self_attn.k_norm",
                             .ffn_norm = "post_attention_layernorm",
                             .gate = "mlp.gate_proj",
                             .up = "mlp.up_proj",
                             .down = "mlp.down_proj"};

// Baichuan's folders pack the rows of q, k and v into one matrix.
constexpr std::string_view kPackedQkv = "self_attn.W_pack";

// Precomputed tables that some files carry and every program computes itself.
constexpr std::array<std::string_view, 5> kIgnoredEndings = {
    "rotary_emb.inv_freq", "rotary_emb.cos_cached", "rotary_emb.sin_cached", "attn_rot_embd",
    "rope_freqs.weight"};

bool is_weight_type(DType type) {
  return is_quantised(type) || type == DType::kF32 || type == DType::kF16 || type == DType::kBF16 ||
         type == DType::kF64;
}

class Mapper {
 public:
  Mapper(const Checkpoint& checkpoint, const ModelConfig& config)
      : checkpoint_(checkpoint),
        config_(config),
        gguf_(checkpoint.format() == Checkpoint::Format::kGguf),
        names_(gguf_ ? kGgufNames : kHfNames) {}

  ModelTensors map() {
    const ModelConfig& c = config_;
    ModelTensors tensors;
    tensors.embedding = matrix(outer(names_.embedding), c.vocab, c.hidden);
    for (int64_t i = 0; i < c.layers; ++i) tensors.layers.push_back(map_layer(i));
    tensors.final_norm = vector(outer(names_.final_norm), c.hidden);
    if (!c.tied_head) tensors.head.push_back(matrix(outer(names_.head), c.vocab, c.hidden));
    tensors.unused = unused();
    return tensors;
  }

 private:
  std::string outer(std::string_view stem) const { return fmt::format("{}.weight", stem); }
  std::string inner(int64_t layer, std::string_view stem, std::string_view kind = "weight") const {
    return fmt::format("{}{}.{}.{}", names_.layer_prefix, layer, stem, kind);
  }

  LayerTensors map_layer(int64_t i) {
    const ModelConfig& c = config_;
    LayerTensors layer;
    layer.attention_norm = vector(inner(i, names_.attention_norm), c.hidden);
    map_qkv(i, layer);
    if (c.qk_norm) {
      layer.q_norm.push_back(vector(inner(i, names_.q_norm), c.head_dim));
      layer.k_norm.push_back(vector(inner(i, names_.k_norm), c.head_dim));
    }
    layer.output = matrix(inner(i, names_.output), c.hidden, c.heads * c.head_dim);
    layer.ffn_norm = vector(inner(i, names_.ffn_norm), c.hidden);
    for (const std::string_view stem : {names_.gate, names_.up}) {
      layer.gate_up.push_back(matrix(inner(i, stem), c.intermediate, c.hidden));
    }
    layer.down = matrix(inner(i, names_.down), c.hidden, c.intermediate);
    return layer;
  }

  void map_qkv(int64_t i, LayerTensors& layer) {
    const ModelConfig& c = config_;
    const int64_t q_rows = c.heads * c.head_dim;
    const int64_t kv_rows = c.kv_heads * c.head_dim;
    if (c.architecture == "baichuan" && !gguf_) {
      layer.qkv.push_back(matrix(inner(i, kPackedQkv), q_rows + 2 * kv_rows, c.hidden));
      return;
    }
    for (const std::string_view stem : {names_.q, names_.k, names_.v}) {
      const int64_t rows = stem == names_.q ? q_rows : kv_rows;
      layer.qkv.push_back(matrix(inner(i, stem), rows, c.hidden));
      if (c.qkv_bias) layer.qkv_bias.push_back(vector(inner(i, stem, "bias"), rows));
    }
  }

  MappedTensor matrix(const std::string& name, int64_t rows, int64_t cols) {
    const TensorInfo& tensor = find(name, {rows, cols});
    return {name, {tensor.type, rows, cols, tensor.data.data()}};
  }

  MappedTensor vector(const std::string& name, int64_t size) {
    const TensorInfo& tensor = find(name, {size});
    return {name, {tensor.type, 1, size, tensor.data.data()}};
  }

  const TensorInfo& find(const std::string& name, const std::vector<int64_t>& shape) {
    const TensorInfo& tensor = checkpoint_.at(name);
    if (tensor.shape != shape) {
      fail(ErrorCode::kCorrupt, "{}: tensor '{}' has shape [{}], the configuration asks for [{}]",
           checkpoint_.path(), name, fmt::join(tensor.shape, ", "), fmt::join(shape, ", "));
    }
    if (!is_weight_type(tensor.type)) {
      fail(ErrorCode::kUnsupported, "{}: tensor '{}' has type {}, which cannot hold weights",
           checkpoint_.path(), name, dtype_name(tensor.type));
    }
    used_.insert(name);
    return tensor;
  }

  // The layer a name belongs to, or nothing for names outside the decoder layers.
  std::optional<int64_t> layer_of(std::string_view name) const {
    if (!name.starts_with(names_.layer_prefix)) return std::nullopt;
    name.remove_prefix(names_.layer_prefix.size());
    int64_t layer = 0;
    const auto result = std::from_chars(name.data(), name.data() + name.size(), layer);
    if (result.ec != std::errc() || result.ptr == name.data() + name.size() || *result.ptr != '.') {
      return std::nullopt;
    }
    return layer;
  }

  bool ignorable(std::string_view name) const {
    if (config_.tied_head && name == outer(names_.head)) return true;
    return std::any_of(kIgnoredEndings.begin(), kIgnoredEndings.end(), [&](std::string_view end) {
      return name.ends_with(end) || name.ends_with(std::string(end) + ".weight");
    });
  }

  std::vector<std::string> unused() const {
    std::vector<std::string> names;
    for (const TensorInfo& tensor : checkpoint_.tensors()) {
      if (used_.count(tensor.name) || ignorable(tensor.name)) continue;
      const std::optional<int64_t> layer = layer_of(tensor.name);
      if (layer && *layer < config_.layers) {
        fail(ErrorCode::kUnsupported, "{}: tensor '{}' has no place in a {} layer",
             checkpoint_.path(), tensor.name, config_.architecture);
      }
      names.push_back(tensor.name);
    }
    return names;
  }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  bool gguf_;
  const Naming& names_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace

ModelTensors map_tensors(const Checkpoint& checkpoint, const ModelConfig& config) {
  return Mapper(checkpoint, config).map();
}

}  // namespace clover
