// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "base/error.h"
#include "model/config_source.h"
#include "tensor/quant.h"

namespace clover {
namespace {

constexpr std::array<std::string_view, 4> kArchitectures = {"llama", "qwen2", "qwen3", "baichuan"};

std::string read_architecture(const Checkpoint& checkpoint) {
  const std::optional<std::string> name = checkpoint.meta_string("general.architecture");
  if (!name) {
    fail(ErrorCode::kCorrupt, "key 'general.architecture' of {} is missing", checkpoint.path());
  }
  if (std::find(kArchitectures.begin(), kArchitectures.end(), *name) == kArchitectures.end()) {
    fail(ErrorCode::kUnsupported,
         "{}: architecture '{}' is not supported (supported: llama, qwen2, qwen3, baichuan)",
         checkpoint.path(), *name);
  }
  return *name;
}

// head_count_kv may be an array with one value a layer; all layers must agree.
int64_t read_kv_heads(const Checkpoint& checkpoint, const GgufSource& source,
                      const ModelConfig& config) {
  constexpr std::string_view kKey = "attention.head_count_kv";
  const std::string full = config.architecture + "." + std::string(kKey);
  const MetaValue* meta = checkpoint.find_meta(full);
  if (!meta || std::holds_alternative<MetaValue::Scalar>(meta->value)) {
    return source.int_in(kKey, 1, config.heads, config.heads);
  }
  const std::vector<int64_t> values = checkpoint.meta_ints(full).value_or(std::vector<int64_t>{});
  if (static_cast<int64_t>(values.size()) != config.layers) {
    fail(ErrorCode::kCorrupt, "{} has {} values for {} layers", source.describe(kKey),
         values.size(), config.layers);
  }
  if (std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) != values.end()) {
    fail(ErrorCode::kUnsupported, "{} differs between layers, which is not supported",
         source.describe(kKey));
  }
  if (values.front() < 1 || values.front() > config.heads) {
    fail(ErrorCode::kCorrupt, "{} is {}, which is not between 1 and {}", source.describe(kKey),
         values.front(), config.heads);
  }
  return values.front();
}

int64_t read_head_dim(const GgufSource& source, const ModelConfig& config) {
  std::optional<int64_t> fallback;
  if (config.hidden % config.heads == 0) fallback = config.hidden / config.heads;
  const int64_t size = source.int_in("attention.key_length", 1, kMaxWidth, fallback);
  if (source.int_in("attention.value_length", 1, kMaxWidth, size) != size) {
    fail(ErrorCode::kUnsupported, "{} differs from attention.key_length, which is not supported",
         source.describe("attention.value_length"));
  }
  if (source.int_in("rope.dimension_count", 0, kMaxWidth, size) != size && config.rope) {
    fail(ErrorCode::kUnsupported, "{} rotates only a part of a head, which is not supported",
         source.describe("rope.dimension_count"));
  }
  return size;
}

void refuse_experts(const GgufSource& source) {
  if (source.find_int("expert_count").value_or(0) > 0) {
    fail(ErrorCode::kUnsupported, "{} asks for a mixture of experts, which is not supported",
         source.describe("expert_count"));
  }
}

// The embedding table is what tokens really index; the token list may be shorter (padding).
int64_t read_vocab(const Checkpoint& checkpoint, const GgufSource& source) {
  const TensorInfo& table = checkpoint.at("token_embd.weight");
  if (table.shape.size() != 2 || table.shape[0] < 1 || table.shape[0] > kMaxVocab) {
    fail(ErrorCode::kCorrupt, "{}: tensor 'token_embd.weight' is not a table of tokens",
         checkpoint.path());
  }
  const int64_t vocab = table.shape[0];
  const auto* tokens = checkpoint.meta_strings("tokenizer.ggml.tokens");
  if (tokens && static_cast<int64_t>(tokens->size()) > vocab) {
    fail(ErrorCode::kCorrupt,
         "key 'tokenizer.ggml.tokens' of {} has {} tokens, tensor 'token_embd.weight' only {}",
         checkpoint.path(), tokens->size(), vocab);
  }
  source.int_in("vocab_size", 1, vocab, vocab);
  return vocab;
}

void read_yarn(const GgufSource& source, const ModelConfig& config, RopeScaling& scaling) {
  scaling.kind = RopeScaling::Kind::kYarn;
  scaling.original_context =
      source.int_in("rope.scaling.original_context_length", 1, kMaxContext, config.context);
  scaling.beta_fast = source.float_in("rope.scaling.yarn_beta_fast", 1e-6, 1e6, 32.0);
  scaling.beta_slow = source.float_in("rope.scaling.yarn_beta_slow", 1e-6, 1e6, 1.0);
  // These multiply the default attention factor; the file's factor is relative to it.
  const double relative = source.float_in("rope.scaling.attn_factor", 1e-3, 1e3, 1.0) *
                          source.float_in("rope.scaling.yarn_attn_factor", 1e-3, 1e3, 1.0);
  if (relative != 1.0) {
    scaling.attention_factor = relative * default_yarn_attention_factor(scaling.factor);
  }
  constexpr std::string_view kMultiplier = "rope.scaling.yarn_log_multiplier";
  if (source.find_float(kMultiplier).value_or(0.0) != 0.0) {
    fail(ErrorCode::kUnsupported, "{} is not supported", source.describe(kMultiplier));
  }
  const double extrapolation = source.find_float("rope.scaling.yarn_ext_factor").value_or(1.0);
  if (extrapolation != 1.0 && extrapolation != -1.0) {
    fail(ErrorCode::kUnsupported, "{} is {}; only 1 is supported",
         source.describe("rope.scaling.yarn_ext_factor"), extrapolation);
  }
}

std::vector<float> read_frequency_factors(const Checkpoint& checkpoint) {
  const TensorInfo* tensor = checkpoint.find("rope_freqs.weight");
  if (!tensor) return {};
  if (tensor->type != DType::kF32 || tensor->shape.size() != 1 || tensor->shape[0] < 1 ||
      tensor->shape[0] > kMaxWidth) {
    fail(ErrorCode::kCorrupt, "{}: tensor 'rope_freqs.weight' is not a float32 vector",
         checkpoint.path());
  }
  std::vector<float> factors(static_cast<size_t>(tensor->shape[0]));
  dequantise(DType::kF32, tensor->data.data(), tensor->shape[0], factors.data());
  return factors;
}

RopeScaling read_scaling(const Checkpoint& checkpoint, const GgufSource& source,
                         const ModelConfig& config) {
  RopeScaling scaling;
  scaling.frequency_factors = read_frequency_factors(checkpoint);
  // Files without a type mean linear, under the present or the first name of the factor.
  const std::string type = source.find_string("rope.scaling.type").value_or("linear");
  const double legacy = source.float_in("rope.scale_linear", 0.0, 1e6, 1.0);
  const double factor = source.float_in("rope.scaling.factor", 0.0, 1e6, legacy);
  if (type == "none") return scaling;
  if (type != "linear" && type != "yarn") {
    fail(ErrorCode::kUnsupported, "{} is '{}'; supported are none, linear and yarn",
         source.describe("rope.scaling.type"), type);
  }
  if (factor != 0.0 && factor < 1.0) {
    fail(ErrorCode::kCorrupt, "{} is {}, which is below 1", source.describe("rope.scaling.factor"),
         factor);
  }
  scaling.factor = factor == 0.0 ? 1.0 : factor;
  if (type == "yarn") {
    read_yarn(source, config, scaling);
  } else if (scaling.factor != 1.0) {
    scaling.kind = RopeScaling::Kind::kLinear;
  }
  return scaling;
}

// Baichuan 13B has no key of its own: its files are known by their 40 layers, as elsewhere.
bool uses_alibi(const GgufSource& source, const ModelConfig& config) {
  constexpr std::string_view kKey = "attention.max_alibi_bias";
  const double bias = source.float_in(kKey, 0.0, 1e6, 0.0);
  if (bias != 0.0 && (bias != 8.0 || config.architecture != "baichuan")) {
    fail(ErrorCode::kUnsupported, "{} is {}, which is not supported", source.describe(kKey), bias);
  }
  return config.architecture == "baichuan" && (bias != 0.0 || config.layers == 40);
}

}  // namespace

ModelConfig read_gguf_config(const Checkpoint& checkpoint) {
  ModelConfig config;
  config.architecture = read_architecture(checkpoint);
  config.name = checkpoint.meta_string("general.name").value_or("");
  const GgufSource source(checkpoint, config.architecture);
  refuse_experts(source);
  config.layers = source.int_in("block_count", 1, kMaxLayers);
  config.hidden = source.int_in("embedding_length", 1, kMaxWidth);
  config.intermediate = source.int_in("feed_forward_length", 1, kMaxWidth * 4);
  config.heads = source.int_in("attention.head_count", 1, kMaxHeads);
  config.kv_heads = read_kv_heads(checkpoint, source, config);
  config.rope = !uses_alibi(source, config);
  config.head_dim = read_head_dim(source, config);
  config.context = source.int_in("context_length", 1, kMaxContext);
  config.vocab = read_vocab(checkpoint, source);
  config.norm_eps =
      static_cast<float>(source.float_in("attention.layer_norm_rms_epsilon", 1e-12, 1.0));
  config.rope_theta = source.float_in("rope.freq_base", 1.0, 1e15, 10000.0);
  if (config.rope) config.rope_scaling = read_scaling(checkpoint, source, config);
  config.rope_adjacent = config.architecture == "llama" || config.architecture == "baichuan";
  config.window = source.int_in("attention.sliding_window", 0, kMaxContext, 0);
  config.tied_head = checkpoint.find("output.weight") == nullptr;
  config.normalised_head = config.architecture == "baichuan" && config.vocab == kBaichuan2Vocab;
  config.qkv_bias = checkpoint.find("blk.0.attn_q.bias") != nullptr;
  config.qk_norm = config.architecture == "qwen3";
  return config;
}

}  // namespace clover
