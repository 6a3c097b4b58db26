// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.h"
#include "model/config_source.h"

namespace clover {
namespace {

using Kind = RopeScaling::Kind;

struct KnownClass {
  std::string_view name;
  std::string_view architecture;
};
constexpr std::array<KnownClass, 7> kClasses = {{{"LlamaForCausalLM", "llama"},
                                                 {"LLaMAForCausalLM", "llama"},
                                                 {"MistralForCausalLM", "mistral"},
                                                 {"Qwen2ForCausalLM", "qwen2"},
                                                 {"Qwen3ForCausalLM", "qwen3"},
                                                 {"BaichuanForCausalLM", "baichuan"},
                                                 {"BaiChuanForCausalLM", "baichuan"}}};

std::string read_architecture(const JsonSource& source) {
  const Json* classes = source.find("architectures");
  if (!classes || !classes->is_array() || classes->empty() || !classes->front().is_string()) {
    fail(ErrorCode::kCorrupt, "{} is missing or not a list of names",
         source.describe("architectures"));
  }
  const std::string name = classes->front().get<std::string>();
  for (const KnownClass& known : kClasses) {
    if (known.name == name) return std::string(known.architecture);
  }
  fail(ErrorCode::kUnsupported,
       "{}: architecture '{}' is not supported (supported: Llama, Mistral, Qwen2, Qwen3 and "
       "Baichuan ForCausalLM)",
       source.name(), name);
}

// Settings that would change the mathematics in ways that are not done.
void refuse_unsupported(const JsonSource& source) {
  const std::string activation = source.find_string("hidden_act").value_or("silu");
  if (activation != "silu") {
    fail(ErrorCode::kUnsupported, "{} is '{}'; only silu is supported",
         source.describe("hidden_act"), activation);
  }
  for (const std::string_view key : {"attention_bias", "mlp_bias"}) {
    if (source.find_bool(key).value_or(false)) {
      fail(ErrorCode::kUnsupported, "{} is true, which is not supported", source.describe(key));
    }
  }
  if (source.find("quantization_config")) {
    fail(ErrorCode::kUnsupported, "{} is not supported; use a GGUF file for quantised weights",
         source.describe("quantization_config"));
  }
}

void read_yarn(const JsonSource& source, RopeScaling& scaling) {
  scaling.beta_fast = source.float_in("beta_fast", 1e-6, 1e6, 32.0);
  scaling.beta_slow = source.float_in("beta_slow", 1e-6, 1e6, 1.0);
  if (!source.find_bool("truncate").value_or(true)) {
    fail(ErrorCode::kUnsupported, "{} is false, which is not supported",
         source.describe("truncate"));
  }
  const double top = source.float_in("mscale", 0.0, 1e3, 0.0);
  const double bottom = source.float_in("mscale_all_dim", 0.0, 1e3, 0.0);
  if (source.find("attention_factor")) {
    scaling.attention_factor = source.float_in("attention_factor", 1e-3, 1e3);
  } else if (top != 0.0 && bottom != 0.0) {
    const double logarithm = default_yarn_attention_factor(scaling.factor) - 1.0;
    scaling.attention_factor = (top * logarithm + 1.0) / (bottom * logarithm + 1.0);
  }
}

// `source` is the rope_scaling (or rope_parameters) object.
RopeScaling read_scaling(const JsonSource& source, int64_t original_context) {
  RopeScaling scaling;
  const std::string older = source.find_string("type").value_or("default");
  const std::string type = source.find_string("rope_type").value_or(older);
  if (type == "default") return scaling;
  if (type == "linear") {
    scaling.kind = Kind::kLinear;
  } else if (type == "llama3") {
    scaling.kind = Kind::kLlama3;
  } else if (type == "yarn") {
    scaling.kind = Kind::kYarn;
  } else {
    fail(ErrorCode::kUnsupported, "{} is '{}'; supported are default, linear, llama3 and yarn",
         source.describe("rope_type"), type);
  }
  scaling.factor = source.float_in("factor", 1.0, 1e6);
  if (scaling.kind == Kind::kLinear) return scaling;
  scaling.original_context =
      source.int_in("original_max_position_embeddings", 1, kMaxContext, original_context);
  if (scaling.kind == Kind::kYarn) {
    read_yarn(source, scaling);
  } else {
    scaling.low_freq_factor = source.float_in("low_freq_factor", 1e-6, 1e6);
    scaling.high_freq_factor = source.float_in("high_freq_factor", 1e-6, 1e6);
  }
  return scaling;
}

// Both spellings: rope_theta and rope_scaling beside each other, or both inside rope_parameters.
void read_rope(const JsonSource& source, ModelConfig& config) {
  const double theta = source.float_in("rope_theta", 1.0, 1e15, 10000.0);
  config.rope_theta = theta;
  std::string key = "rope_scaling";
  const Json* object = source.find(key);
  if (!object || object->empty()) {
    key = "rope_parameters";
    object = source.find(key);
  }
  const auto whole_head = [](const JsonSource& where) {
    if (where.float_in("partial_rotary_factor", 0.0, 1.0, 1.0) != 1.0) {
      fail(ErrorCode::kUnsupported, "{} rotates only a part of a head, which is not supported",
           where.describe("partial_rotary_factor"));
    }
  };
  whole_head(source);
  if (!object || object->empty()) return;
  if (!object->is_object()) fail(ErrorCode::kCorrupt, "{} is not an object", source.describe(key));
  for (const auto& [name, value] : object->items()) {
    if (value.is_object()) {
      fail(ErrorCode::kUnsupported, "{} differs by layer ('{}'), which is not supported",
           source.describe(key), name);
    }
  }
  const JsonSource inner(*object, source.name() + ": " + key);
  whole_head(inner);
  config.rope_theta = inner.float_in("rope_theta", 1.0, 1e15, theta);
  config.rope_scaling = read_scaling(
      inner, source.int_in("original_max_position_embeddings", 1, kMaxContext, config.context));
}

// layer_types, where it is written: every layer must be of one kind.
std::optional<bool> all_layers_slide(const JsonSource& source, int64_t layers) {
  const Json* types = source.find("layer_types");
  if (!types) return std::nullopt;
  if (!types->is_array() || static_cast<int64_t>(types->size()) != layers) {
    fail(ErrorCode::kCorrupt, "{} is not a list of {} names", source.describe("layer_types"),
         layers);
  }
  int64_t sliding = 0;
  for (const Json& type : *types) {
    const std::string name = type.is_string() ? type.get<std::string>() : type.dump();
    if (name != "full_attention" && name != "sliding_attention") {
      fail(ErrorCode::kUnsupported, "{} holds '{}', which is not supported",
           source.describe("layer_types"), name);
    }
    sliding += name == "sliding_attention";
  }
  if (sliding != 0 && sliding != layers) {
    fail(ErrorCode::kUnsupported, "{} mixes full and sliding attention, which is not supported",
         source.describe("layer_types"));
  }
  return sliding != 0;
}

// Mistral slides in all layers; Qwen from layer max_window_layers on, if use_sliding_window.
int64_t read_window(const JsonSource& source, const ModelConfig& config) {
  const int64_t window = source.int_in("sliding_window", 0, kMaxContext, 0);
  const std::optional<bool> stated = all_layers_slide(source, config.layers);
  const bool qwen = config.architecture == "qwen2" || config.architecture == "qwen3";
  if (stated && !*stated) return 0;
  if (config.architecture == "mistral") return window;
  if (!qwen) {
    if (stated) {
      fail(ErrorCode::kUnsupported, "{} asks for sliding attention, which {} does not have",
           source.describe("layer_types"), config.architecture);
    }
    return 0;
  }
  if (!source.find_bool("use_sliding_window").value_or(false)) return 0;
  const int64_t first = source.int_in("max_window_layers", 0, kMaxLayers, 28);
  if (stated || first == 0 || window == 0) return window;
  if (first >= config.layers) return 0;
  fail(ErrorCode::kUnsupported, "{} mixes full and sliding attention, which is not supported",
       source.describe("max_window_layers"));
}

// 7B rotates, 13B uses ALiBi, and no key says which: the two published sizes are known; other
// sizes follow the key that only the configuration class of the rotating model has.
bool baichuan_rotates(const JsonSource& source, const ModelConfig& config) {
  if (config.hidden == 4096 && config.layers == 32) return true;
  if (config.hidden == 5120 && config.layers == 40) return false;
  return source.find("max_position_embeddings") != nullptr;
}

void read_baichuan(const JsonSource& source, ModelConfig& config) {
  config.rope = baichuan_rotates(source, config);
  const char* key =
      source.find("max_position_embeddings") ? "max_position_embeddings" : "model_max_length";
  config.context = source.int_in(key, 1, kMaxContext);
  config.normalised_head = config.vocab == kBaichuan2Vocab || source.find("z_loss_weight");
}

void read_heads(const JsonSource& source, ModelConfig& config) {
  config.heads = source.int_in("num_attention_heads", 1, kMaxHeads);
  config.kv_heads = config.architecture == "baichuan"
                        ? config.heads
                        : source.int_in("num_key_value_heads", 1, config.heads, config.heads);
  std::optional<int64_t> fallback;
  if (config.hidden % config.heads == 0) fallback = config.hidden / config.heads;
  if (config.architecture == "qwen3") fallback = 128;
  if (config.architecture == "baichuan" && !fallback) {
    fail(ErrorCode::kCorrupt, "{} does not divide hidden_size {}",
         source.describe("num_attention_heads"), config.hidden);
  }
  config.head_dim = config.architecture == "baichuan"
                        ? *fallback
                        : source.int_in("head_dim", 1, kMaxWidth, fallback);
}

}  // namespace

ModelConfig read_hf_config(const Checkpoint& checkpoint) {
  const Json* document = checkpoint.document("config.json");
  if (!document) fail(ErrorCode::kNotFound, "{} has no config.json", checkpoint.path());
  const std::string name = checkpoint.path() + "/config.json";
  if (!document->is_object()) fail(ErrorCode::kCorrupt, "{} is not a JSON object", name);
  const JsonSource source(*document, name);
  ModelConfig config;
  config.architecture = read_architecture(source);
  config.name = std::filesystem::path(checkpoint.path()).filename().string();
  refuse_unsupported(source);
  config.layers = source.int_in("num_hidden_layers", 1, kMaxLayers);
  config.hidden = source.int_in("hidden_size", 1, kMaxWidth);
  config.intermediate = source.int_in("intermediate_size", 1, kMaxWidth * 4);
  config.vocab = source.int_in("vocab_size", 1, kMaxVocab);
  config.norm_eps = static_cast<float>(source.float_in("rms_norm_eps", 1e-12, 1.0, 1e-6));
  config.tied_head = source.find_bool("tie_word_embeddings").value_or(false);
  read_heads(source, config);
  if (config.architecture == "baichuan") {
    read_baichuan(source, config);
  } else {
    config.context = source.int_in("max_position_embeddings", 1, kMaxContext);
    read_rope(source, config);
  }
  config.window = read_window(source, config);
  config.qkv_bias = config.architecture == "qwen2";
  config.qk_norm = config.architecture == "qwen3";
  return config;
}

}  // namespace clover
