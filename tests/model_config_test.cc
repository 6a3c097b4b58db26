// SPDX-License-Identifier: Apache-2.0
// Configurations from config.json and GGUF keys: published ones are understood, impossible ones
// (F10, F11, F12) are refused with the name of the key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_fixtures.h"

namespace clover {
namespace {

using namespace testing_support;
using ::testing::HasSubstr;
using Kind = RopeScaling::Kind;

ModelConfig hf_config(const std::string& text) {
  static const std::unique_ptr<Checkpoint> base = open_tiny("llama2");
  EditedCheckpoint checkpoint(*base);
  checkpoint.config() = Json::parse(text);
  return read_model_config(checkpoint);
}

TEST(HfConfig, Llama31) {
  const ModelConfig c = hf_config(R"({"architectures": ["LlamaForCausalLM"],
    "attention_bias": false, "hidden_act": "silu", "hidden_size": 4096,
    "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 8.0,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
    "rope_type": "llama3"}, "rope_theta": 500000.0, "tie_word_embeddings": false,
    "vocab_size": 128256})");
  EXPECT_EQ(c.architecture, "llama");
  EXPECT_EQ(c.kv_heads, 8);
  EXPECT_EQ(c.head_dim, 128);
  EXPECT_EQ(c.context, 131072);
  EXPECT_EQ(c.rope_theta, 500000.0);
  EXPECT_EQ(c.rope_scaling.kind, Kind::kLlama3);
  EXPECT_EQ(c.rope_scaling.factor, 8.0);
  EXPECT_EQ(c.rope_scaling.original_context, 8192);
  EXPECT_FALSE(c.rope_adjacent);
  EXPECT_FALSE(c.tied_head);
  EXPECT_EQ(c.window, 0);
}

TEST(HfConfig, Mistral7B) {
  const ModelConfig c = hf_config(R"({"architectures": ["MistralForCausalLM"],
    "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
    "max_position_embeddings": 32768, "num_attention_heads": 32, "num_hidden_layers": 32,
    "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
    "sliding_window": 4096, "vocab_size": 32000})");
  EXPECT_EQ(c.architecture, "mistral");
  EXPECT_EQ(c.window, 4096);
}

constexpr char kQwen25[] = R"({"architectures": ["Qwen2ForCausalLM"], "hidden_act": "silu",
    "hidden_size": 896, "intermediate_size": 4864, "max_position_embeddings": 32768,
    "max_window_layers": 21, "num_attention_heads": 14, "num_hidden_layers": 24,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
    "sliding_window": 32768, "tie_word_embeddings": true, "use_sliding_window": false,
    "vocab_size": 151936})";

TEST(HfConfig, Qwen25) {
  const ModelConfig c = hf_config(kQwen25);
  EXPECT_EQ(c.head_dim, 64);
  EXPECT_TRUE(c.qkv_bias);
  EXPECT_FALSE(c.qk_norm);
  EXPECT_TRUE(c.tied_head);
  EXPECT_EQ(c.window, 0);
}

TEST(HfConfig, QwenWindowInAllLayersOrNone) {
  Json json = Json::parse(kQwen25);
  json["use_sliding_window"] = true;
  EXPECT_THROW(hf_config(json.dump()), Error);  // layers 21 … 23 only
  json["max_window_layers"] = 24;
  EXPECT_EQ(hf_config(json.dump()).window, 0);
  json["max_window_layers"] = 0;
  EXPECT_EQ(hf_config(json.dump()).window, 32768);
  json["layer_types"] = Json(std::vector<std::string>(24, "full_attention"));
  EXPECT_EQ(hf_config(json.dump()).window, 0);
  json["layer_types"][3] = "sliding_attention";
  EXPECT_THROW(hf_config(json.dump()), Error);
}

TEST(HfConfig, Qwen3WithRopeParameters) {
  const ModelConfig c = hf_config(R"({"architectures": ["Qwen3ForCausalLM"],
    "attention_bias": false, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024,
    "intermediate_size": 3072, "max_position_embeddings": 40960, "num_attention_heads": 16,
    "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06,
    "rope_parameters": {"rope_theta": 1000000, "rope_type": "yarn", "factor": 4.0,
    "original_max_position_embeddings": 32768}, "tie_word_embeddings": true,
    "vocab_size": 151936})");
  EXPECT_EQ(c.head_dim, 128);  // not hidden / heads = 64
  EXPECT_TRUE(c.qk_norm);
  EXPECT_FALSE(c.qkv_bias);
  EXPECT_EQ(c.rope_theta, 1e6);
  EXPECT_EQ(c.rope_scaling.kind, Kind::kYarn);
  EXPECT_EQ(c.rope_scaling.original_context, 32768);
}

TEST(HfConfig, YarnAttentionFactor) {
  const std::string start = R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64,
    "intermediate_size": 64, "max_position_embeddings": 4096, "num_attention_heads": 4,
    "num_hidden_layers": 1, "vocab_size": 10, "rope_scaling": {"type": "yarn", "factor": 4.0)";
  EXPECT_EQ(hf_config(start + "}}").rope_scaling.original_context, 4096);
  EXPECT_EQ(hf_config(start + R"(, "attention_factor": 1.25}})").rope_scaling.attention_factor,
            1.25);
  const ModelConfig c = hf_config(start + R"(, "mscale": 1.0, "mscale_all_dim": 0.5}})");
  const double logarithm = 0.1 * std::log(4.0);
  EXPECT_DOUBLE_EQ(c.rope_scaling.attention_factor, (logarithm + 1.0) / (0.5 * logarithm + 1.0));
}

TEST(HfConfig, BaichuanFamily) {
  const std::string small = R"("hidden_act": "silu", "hidden_size": 4096,
    "intermediate_size": 11008, "max_position_embeddings": 4096, "num_attention_heads": 32,
    "num_hidden_layers": 32, "rms_norm_eps": 1e-06)";
  const std::string large = R"("hidden_act": "silu", "hidden_size": 5120,
    "intermediate_size": 13696, "model_max_length": 4096, "num_attention_heads": 40,
    "num_hidden_layers": 40, "rms_norm_eps": 1e-06)";
  const ModelConfig one = hf_config(
      R"({"architectures": ["BaiChuanForCausalLM"], "vocab_size": 64000, )" + small + "}");
  EXPECT_TRUE(one.rope);
  EXPECT_FALSE(one.normalised_head);
  EXPECT_EQ(one.kv_heads, 32);
  const ModelConfig two = hf_config(
      R"({"architectures": ["BaichuanForCausalLM"], "vocab_size": 125696, )" + small + "}");
  EXPECT_TRUE(two.rope);
  EXPECT_TRUE(two.normalised_head);
  const ModelConfig thirteen = hf_config(
      R"({"architectures": ["BaichuanForCausalLM"], "vocab_size": 125696, )" + large + "}");
  EXPECT_FALSE(thirteen.rope);
  EXPECT_TRUE(thirteen.normalised_head);
  EXPECT_EQ(thirteen.context, 4096);
}

struct BadValue {
  std::string key;
  Json value;
  ErrorCode code;
  std::string message;
};

template <typename Run>
void expect_error(const Run& run, ErrorCode code, const std::string& message) {
  try {
    run();
    ADD_FAILURE() << "accepted, expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

TEST(HfConfig, RefusesBadValuesByName) {
  const Json null = nullptr;
  const auto corrupt = ErrorCode::kCorrupt;
  const auto unsupported = ErrorCode::kUnsupported;
  const std::vector<BadValue> table = {
      {"architectures", Json::array({"GPT2LMHeadModel"}), unsupported, "'GPT2LMHeadModel'"},
      {"architectures", null, corrupt, "architectures"},
      {"architectures", Json::array(), corrupt, "architectures"},
      {"architectures", "LlamaForCausalLM", corrupt, "architectures"},
      {"hidden_act", "gelu", unsupported, "'gelu'"},
      {"attention_bias", true, unsupported, "attention_bias"},
      {"attention_bias", "yes", corrupt, "attention_bias"},
      {"mlp_bias", true, unsupported, "mlp_bias"},
      {"quantization_config", {{"quant_method", "gptq"}}, unsupported, "quantization_config"},
      {"hidden_size", 0, corrupt, "hidden_size"},
      {"hidden_size", -64, corrupt, "hidden_size"},
      {"hidden_size", 64.5, corrupt, "hidden_size"},
      {"hidden_size", "64", corrupt, "hidden_size"},
      {"hidden_size", uint64_t{1} << 63, corrupt, "hidden_size"},
      {"hidden_size", int64_t{1} << 40, corrupt, "hidden_size"},
      {"hidden_size", 1e300, corrupt, "hidden_size"},
      {"hidden_size", null, corrupt, "hidden_size"},
      {"hidden_size", 65, corrupt, "head_dim"},  // not a multiple of the heads, and no head_dim
      {"intermediate_size", 0, corrupt, "intermediate_size"},
      {"num_hidden_layers", 0, corrupt, "num_hidden_layers"},
      {"num_hidden_layers", 1000000, corrupt, "num_hidden_layers"},
      {"num_attention_heads", 0, corrupt, "num_attention_heads"},
      {"num_key_value_heads", 0, corrupt, "num_key_value_heads"},
      {"num_key_value_heads", 3, corrupt, "4 attention heads do not divide among 3"},
      {"num_key_value_heads", 8, corrupt, "num_key_value_heads"},
      {"head_dim", 0, corrupt, "head_dim"},
      {"head_dim", 15, corrupt, "even head size"},
      {"head_dim", 1 << 20, corrupt, "too wide"},
      {"vocab_size", 0, corrupt, "vocab_size"},
      {"vocab_size", int64_t{1} << 32, corrupt, "vocab_size"},
      {"max_position_embeddings", 0, corrupt, "max_position_embeddings"},
      {"rms_norm_eps", 0.0, corrupt, "rms_norm_eps"},
      {"rms_norm_eps", -1e-5, corrupt, "rms_norm_eps"},
      {"rms_norm_eps", "small", corrupt, "rms_norm_eps"},
      {"rope_theta", 0.0, corrupt, "rope_theta"},
      {"rope_theta", -10000.0, corrupt, "rope_theta"},
      {"partial_rotary_factor", 0.5, unsupported, "partial_rotary_factor"},
      {"layer_types", {"full_attention", "sliding_attention"}, unsupported, "layer_types"},
      {"layer_types", {"full_attention", "linear_attention"}, unsupported, "linear_attention"},
      {"layer_types", {"full_attention"}, corrupt, "layer_types"},
      {"rope_scaling", 3, corrupt, "rope_scaling"},
      {"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}, unsupported, "'dynamic'"},
      {"rope_scaling", {{"rope_type", "longrope"}}, unsupported, "'longrope'"},
      {"rope_scaling", {{"type", 7}}, corrupt, "'type'"},
      {"rope_scaling", {{"type", "linear"}}, corrupt, "'factor'"},
      {"rope_scaling", {{"type", "linear"}, {"factor", 0.0}}, corrupt, "'factor'"},
      {"rope_scaling", {{"type", "linear"}, {"factor", -2.0}}, corrupt, "'factor'"},
      {"rope_scaling",
       {{"type", "yarn"}, {"factor", 2.0}, {"truncate", false}},
       unsupported,
       "'truncate'"},
      {"rope_scaling",
       {{"type", "yarn"}, {"factor", 2.0}, {"beta_fast", 1}, {"beta_slow", 32}},
       corrupt,
       "beta_slow"},
      {"rope_scaling", {{"type", "llama3"}, {"factor", 8.0}}, corrupt, "low_freq_factor"},
      {"rope_scaling",
       {{"type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 4}, {"high_freq_factor", 4}},
       corrupt,
       "low_freq_factor"},
      {"rope_parameters",
       {{"full_attention", {{"rope_type", "default"}}}},
       unsupported,
       "rope_parameters"},
  };
  const auto base = open_tiny("llama2");
  for (const BadValue& bad : table) {
    SCOPED_TRACE(bad.key + " = " + bad.value.dump());
    EditedCheckpoint checkpoint(*base);
    checkpoint.config()[bad.key] = bad.value;
    expect_error([&] { read_model_config(checkpoint); }, bad.code, bad.message);
  }
}

TEST(HfConfig, RefusesAFolderWithoutConfiguration) {
  const auto base = open_tiny("llama2");
  EditedCheckpoint checkpoint(*base);
  checkpoint.config() = nullptr;
  expect_error([&] { read_model_config(checkpoint); }, ErrorCode::kNotFound, "config.json");
  checkpoint.config() = Json::array({1, 2});
  expect_error([&] { read_model_config(checkpoint); }, ErrorCode::kCorrupt, "not a JSON object");
}

// --- GGUF ---------------------------------------------------------------------------------------

MetaValue scalar(MetaValue::Scalar value) { return {std::move(value)}; }
MetaValue whole(int64_t value) { return scalar(value); }
MetaValue real(double value) { return scalar(value); }
MetaValue text(const std::string& value) { return scalar(value); }

TEST(GgufConfig, Llama3WithWrittenOutFactors) {
  const ModelConfig c = read_model_config(*open_tiny("gguf_llama3"));
  EXPECT_EQ(c.architecture, "llama");
  EXPECT_TRUE(c.rope_adjacent);
  EXPECT_TRUE(c.tied_head);
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.vocab, 96);
  EXPECT_EQ(c.rope_theta, 500000.0);
  EXPECT_EQ(c.rope_scaling.kind, Kind::kNone);
  EXPECT_EQ(c.rope_scaling.frequency_factors.size(), 8u);
  EXPECT_EQ(c.rope_scaling.frequency_factors.back(), 8.0f);
  EXPECT_FALSE(c.name.empty());
}

TEST(GgufConfig, Qwen2WithYarn) {
  const ModelConfig c = read_model_config(*open_tiny("gguf_qwen2"));
  EXPECT_FALSE(c.rope_adjacent);
  EXPECT_TRUE(c.qkv_bias);
  EXPECT_FALSE(c.tied_head);
  EXPECT_EQ(c.rope_scaling.kind, Kind::kYarn);
  EXPECT_EQ(c.rope_scaling.factor, 4.0);
  EXPECT_EQ(c.rope_scaling.original_context, 64);
}

TEST(GgufConfig, KeysThatAreSpeltTwoWays) {
  const auto base = open_tiny("gguf_llama_q8_0");
  EditedCheckpoint checkpoint(*base);
  checkpoint.set_meta("llama.rope.scale_linear", real(2.0));
  EXPECT_EQ(read_model_config(checkpoint).rope_scaling.kind, Kind::kLinear);
  EXPECT_EQ(read_model_config(checkpoint).rope_scaling.factor, 2.0);
  checkpoint.set_meta("llama.rope.scaling.type", text("none"));
  EXPECT_EQ(read_model_config(checkpoint).rope_scaling.kind, Kind::kNone);
  checkpoint.set_meta("llama.attention.head_count_kv", {std::vector<int64_t>{2, 2}});
  EXPECT_EQ(read_model_config(checkpoint).kv_heads, 2);
  checkpoint.set_meta("llama.attention.sliding_window", whole(24));
  EXPECT_EQ(read_model_config(checkpoint).window, 24);
  checkpoint.set_meta("llama.rope.scaling.type", text("yarn"));
  checkpoint.set_meta("llama.rope.scaling.attn_factor", real(0.5));
  EXPECT_DOUBLE_EQ(read_model_config(checkpoint).rope_scaling.attention_factor,
                   0.5 * (0.1 * std::log(2.0) + 1.0));
}

TEST(GgufConfig, RefusesBadValuesByName) {
  struct Bad {
    std::string key;
    MetaValue value;
    ErrorCode code;
    std::string message;
  };
  const auto corrupt = ErrorCode::kCorrupt;
  const auto unsupported = ErrorCode::kUnsupported;
  const std::vector<Bad> table = {
      {"general.architecture", text("gpt2"), unsupported, "'gpt2'"},
      {"general.architecture", text(""), unsupported, "architecture ''"},
      {"general.architecture", whole(3), corrupt, "general.architecture"},
      {"llama.block_count", whole(0), corrupt, "llama.block_count"},
      {"llama.block_count", text("2"), corrupt, "llama.block_count"},
      {"llama.embedding_length", whole(int64_t{1} << 50), corrupt, "llama.embedding_length"},
      {"llama.feed_forward_length", whole(-1), corrupt, "llama.feed_forward_length"},
      {"llama.attention.head_count", whole(0), corrupt, "llama.attention.head_count"},
      {"llama.attention.head_count_kv", whole(3), corrupt, "do not divide among 3"},
      {"llama.attention.head_count_kv", {std::vector<int64_t>{4}}, corrupt, "head_count_kv"},
      {"llama.attention.head_count_kv", {std::vector<int64_t>{4, 2}}, unsupported, "head_count_kv"},
      {"llama.attention.head_count_kv", {std::vector<int64_t>{0, 0}}, corrupt, "head_count_kv"},
      {"llama.attention.key_length", whole(0), corrupt, "llama.attention.key_length"},
      {"llama.attention.value_length", whole(8), unsupported, "llama.attention.value_length"},
      {"llama.rope.dimension_count", whole(8), unsupported, "llama.rope.dimension_count"},
      {"llama.context_length", whole(0), corrupt, "llama.context_length"},
      {"llama.attention.layer_norm_rms_epsilon", real(0.0), corrupt, "layer_norm_rms_epsilon"},
      {"llama.attention.layer_norm_rms_epsilon", real(NAN), corrupt, "layer_norm_rms_epsilon"},
      {"llama.rope.freq_base", real(-1.0), corrupt, "llama.rope.freq_base"},
      {"llama.rope.freq_base", real(INFINITY), corrupt, "llama.rope.freq_base"},
      {"llama.rope.scaling.type", text("longrope"), unsupported, "'longrope'"},
      {"llama.rope.scaling.factor", real(0.5), corrupt, "llama.rope.scaling.factor"},
      {"llama.rope.scaling.factor", real(-4.0), corrupt, "llama.rope.scaling.factor"},
      {"llama.expert_count", whole(8), unsupported, "llama.expert_count"},
      {"llama.attention.max_alibi_bias", real(8.0), unsupported, "max_alibi_bias"},
      {"llama.vocab_size", whole(97), corrupt, "llama.vocab_size"},
      {"tokenizer.ggml.tokens", {std::vector<std::string>(97, "x")}, corrupt, "97 tokens"},
  };
  const auto base = open_tiny("gguf_llama_q8_0");
  for (const Bad& bad : table) {
    SCOPED_TRACE(bad.key);
    EditedCheckpoint checkpoint(*base);
    checkpoint.set_meta(bad.key, bad.value);
    expect_error([&] { read_model_config(checkpoint); }, bad.code, bad.message);
  }
  for (const std::string key :
       {"general.architecture", "llama.block_count", "llama.embedding_length",
        "llama.feed_forward_length", "llama.attention.head_count", "llama.context_length",
        "llama.attention.layer_norm_rms_epsilon"}) {
    SCOPED_TRACE(key);
    EditedCheckpoint checkpoint(*base);
    checkpoint.erase_meta(key);
    expect_error([&] { read_model_config(checkpoint); }, corrupt, key);
  }
}

TEST(GgufConfig, RefusesBadTensorsThatTheConfigurationRests) {
  const auto base = open_tiny("gguf_llama3");
  for (const float bad : {0.0f, -1.0f, NAN, INFINITY}) {
    EditedCheckpoint checkpoint(*base);
    checkpoint.erase("rope_freqs.weight");
    checkpoint.add("rope_freqs.weight", {8}, {1, 1, 1, 1, 1, 1, 1, bad});
    expect_error([&] { read_model_config(checkpoint); }, ErrorCode::kCorrupt, "rope_freqs.weight");
  }
  EditedCheckpoint checkpoint(*base);
  checkpoint.erase("rope_freqs.weight");
  checkpoint.add("rope_freqs.weight", {7}, {1, 1, 1, 1, 1, 1, 1});
  expect_error([&] { read_model_config(checkpoint); }, ErrorCode::kCorrupt, "has 7 values");
  checkpoint.tensor("rope_freqs.weight").type = DType::kI32;
  expect_error([&] { read_model_config(checkpoint); }, ErrorCode::kCorrupt, "rope_freqs.weight");
  checkpoint.erase("rope_freqs.weight");
  checkpoint.tensor("token_embd.weight").shape = {96 * 64};
  expect_error([&] { read_model_config(checkpoint); }, ErrorCode::kCorrupt, "token_embd.weight");
  checkpoint.erase("token_embd.weight");
  expect_error([&] { read_model_config(checkpoint); }, ErrorCode::kNotFound, "token_embd.weight");
}

}  // namespace
}  // namespace clover
