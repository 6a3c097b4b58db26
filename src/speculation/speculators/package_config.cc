// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/package_config.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "checkpoint/names.h"
#include "model/config_source.h"

namespace clover {
namespace {

constexpr int64_t kVersion = 1;
constexpr std::string_view kFeatures = "hidden before the final norm";

// The values of an enumeration as files spell them.
template <typename T, size_t N>
using Words = std::array<std::pair<std::string_view, T>, N>;

constexpr Words<BlockKind, 4> kBlocks{{{"none", BlockKind::kNone},
                                       {"attention", BlockKind::kAttention},
                                       {"mlp", BlockKind::kMlp},
                                       {"full", BlockKind::kFull}}};
constexpr Words<DecoderKind, 4> kDecoders{{{"none", DecoderKind::kNone},
                                           {"cosine", DecoderKind::kCosine},
                                           {"mlp", DecoderKind::kMlp},
                                           {"concat", DecoderKind::kConcat}}};
constexpr Words<ProjectorKind, 2> kProjectors{
    {{"resblock", ProjectorKind::kResblock}, {"fc", ProjectorKind::kFc}}};
constexpr Words<EmbeddingKind, 2> kEmbeddings{
    {{"lm_head", EmbeddingKind::kHeadRow},
     {"normalised_lm_head", EmbeddingKind::kNormalisedHeadRow}}};
constexpr Words<DType, 4> kWeights{
    {{"q8_0", DType::kQ8_0}, {"q4_1", DType::kQ4_1}, {"bf16", DType::kBF16}, {"f32", DType::kF32}}};
constexpr Words<bool, 2> kLayouts{{{"adjacent", true}, {"halves", false}}};

template <typename T, size_t N>
std::string spell(const Words<T, N>& words, T value) {
  for (const auto& [word, meaning] : words) {
    if (meaning == value) return std::string(word);
  }
  fail(ErrorCode::kInvalidArgument, "a value of the speculator configuration has no name");
}

std::string text_of(const JsonSource& source, std::string_view key) {
  const auto text = source.find_string(key);
  if (!text) fail(ErrorCode::kCorrupt, "{} is missing", source.describe(key));
  return *text;
}

template <typename T, size_t N>
T read_word(const JsonSource& source, std::string_view key, const Words<T, N>& words) {
  const std::string text = text_of(source, key);
  std::string known;
  for (const auto& [word, meaning] : words) {
    if (word == text) return meaning;
    known += known.empty() ? "" : ", ";
    known += word;
  }
  fail(ErrorCode::kCorrupt, "{} is {}, which is none of {}", source.describe(key), quote_name(text),
       known);
}

bool flag(const JsonSource& source, std::string_view key) {
  const auto value = source.find_bool(key);
  if (!value) fail(ErrorCode::kCorrupt, "{} is missing", source.describe(key));
  return *value;
}

Verifier parse_verifier(const JsonSource& source) {
  const Json* object = source.find("verifier");
  if (!object || !object->is_object())
    fail(ErrorCode::kCorrupt, "{} is missing or no object", source.describe("verifier"));
  const JsonSource v(*object, source.name() + ": verifier");
  return {.name = v.find_string("name").value_or(""),
          .fingerprint = text_of(v, "fingerprint"),
          .hidden = v.int_in("hidden_size", 1, kMaxWidth),
          .layers = v.int_in("num_layers", 1, kMaxLayers),
          .vocab = v.int_in("vocab_size", 1, kMaxVocab),
          .rope_adjacent = read_word(v, "rope_layout", kLayouts)};
}

CloverConfig parse_switches(const JsonSource& source) {
  constexpr int64_t kMany = 1024;  // bounded more closely by validate()
  CloverConfig c;
  c.block = read_word(source, "augmenting_block", kBlocks);
  c.block_layers = source.int_in("augmenting_layers", 0, kMany);
  c.decoder_first = flag(source, "decoder_first");
  c.decoder = read_word(source, "attention_decoder", kDecoders);
  c.decoder_heads = source.int_in("decoder_heads", 0, kMaxHeads);
  c.regressive = flag(source, "regressive");
  c.projector = read_word(source, "projector", kProjectors);
  c.shared_heads = flag(source, "shared_heads");
  c.embedding = read_word(source, "embedding", kEmbeddings);
  c.input_norm = flag(source, "input_norm");
  c.head_norm = flag(source, "head_norm");
  return c;
}

void check_kind(const JsonSource& source, const std::string& type) {
  const std::vector<std::string>& presets = preset_names();
  if (type != "eagle" && type != "clover" && type != PackageConfig::kTableOnly &&
      std::find(presets.begin(), presets.end(), type) == presets.end())
    fail(ErrorCode::kUnsupported, "{} is {}, which is no speculator that Clover runs",
         source.describe("speculators_model_type"), quote_name(type));
  const int64_t version = source.int_in("format_version", 0, kMaxWidth);
  if (version != kVersion)
    fail(ErrorCode::kUnsupported, "{} is {}; this program reads {}",
         source.describe("format_version"), version, kVersion);
  if (type == PackageConfig::kTableOnly) return;
  const std::string features = text_of(source, "features");
  if (features != kFeatures)
    fail(ErrorCode::kUnsupported, "{} is {}; this program works with \"{}\"",
         source.describe("features"), quote_name(features), kFeatures);
}

}  // namespace

PackageConfig parse_package_config(const Json& json, const std::string& name) {
  if (!json.is_object()) fail(ErrorCode::kCorrupt, "{} is no JSON object", name);
  const JsonSource source(json, name);
  PackageConfig config;
  config.type = text_of(source, "speculators_model_type");
  check_kind(source, config.type);
  config.verifier = parse_verifier(source);
  config.ngram_table = source.find_bool("ngram_table").value_or(!config.has_head());
  if (const Json* training = source.find("training")) config.training = *training;
  if (!config.has_head()) {
    if (!config.ngram_table)
      fail(ErrorCode::kCorrupt, "{} is false, and there is no head",
           source.describe("ngram_table"));
    return config;
  }
  if (!config.eagle()) config.clover = parse_switches(source);
  config.clover.heads = source.int_in("heads", 1, 64);
  config.draft_vocab = source.int_in("draft_vocab_size", 1, config.verifier.vocab);
  config.d2t_sha256 = source.find_string("d2t_sha256").value_or("");
  config.weights = read_word(source, "weights", kWeights);
  if (config.eagle()) return config;
  try {
    validate(config.clover, config.verifier.hidden);
  } catch (const Error& error) {
    fail(ErrorCode::kCorrupt, "{}: {}", name, error.what());
  }
  return config;
}

namespace {

void write_head(Json& json, const PackageConfig& config) {
  const CloverConfig& c = config.clover;
  json["features"] = std::string(kFeatures);
  json["heads"] = c.heads;
  json["draft_vocab_size"] = config.draft_vocab;
  json["weights"] = spell(kWeights, config.weights);
  if (!config.d2t_sha256.empty()) json["d2t_sha256"] = config.d2t_sha256;
  if (config.eagle()) return;
  json["augmenting_block"] = spell(kBlocks, c.block);
  json["augmenting_layers"] = c.block_layers;
  json["decoder_first"] = c.decoder_first;
  json["attention_decoder"] = spell(kDecoders, c.decoder);
  json["decoder_heads"] = c.decoder_heads;
  json["regressive"] = c.regressive;
  json["projector"] = spell(kProjectors, c.projector);
  json["shared_heads"] = c.shared_heads;
  json["embedding"] = spell(kEmbeddings, c.embedding);
  json["input_norm"] = c.input_norm;
  json["head_norm"] = c.head_norm;
}

}  // namespace

Json package_config_json(const PackageConfig& config) {
  Json json = {{"speculators_model_type", config.type}, {"format_version", kVersion}};
  if (config.has_head()) write_head(json, config);
  if (config.ngram_table) json["ngram_table"] = true;
  const Verifier& v = config.verifier;
  json["verifier"] = {{"name", v.name},          {"fingerprint", v.fingerprint},
                      {"hidden_size", v.hidden}, {"num_layers", v.layers},
                      {"vocab_size", v.vocab},   {"rope_layout", spell(kLayouts, v.rope_adjacent)}};
  json["training"] = config.training;
  return json;
}

Verifier describe_target(const ModelConfig& config, std::string fingerprint) {
  return {config.name,   std::move(fingerprint), config.hidden,
          config.layers, config.vocab,           config.rope_adjacent};
}

void check_verifier(const Verifier& wanted, const Verifier& target, const std::string& package) {
  std::string differing;
  const auto compare = [&](std::string_view field, const auto& want, const auto& have) {
    if (want == have) return;
    differing += fmt::format("{}{} is {}, the model has {}", differing.empty() ? "" : "; ", field,
                             want, have);
  };
  compare("hidden_size", wanted.hidden, target.hidden);
  compare("num_layers", wanted.layers, target.layers);
  compare("vocab_size", wanted.vocab, target.vocab);
  compare("rope_layout", spell(kLayouts, wanted.rope_adjacent),
          spell(kLayouts, target.rope_adjacent));
  compare("fingerprint", quote_name(wanted.fingerprint), quote_name(target.fingerprint));
  if (differing.empty()) return;
  fail(ErrorCode::kInvalidArgument, "{} was made for another model ({}): {}", package,
       quote_name(wanted.name), differing);
}

}  // namespace clover
