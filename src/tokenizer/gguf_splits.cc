// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/gguf_splits.h"

#include <array>
#include <string>
#include <vector>

#include "base/error.h"

namespace clover {
namespace {

// Patterns in the order they are applied; each cuts out its matches.
using Patterns = std::vector<const char*>;

// How one family of models splits, and its names in GGUF files.
struct Family {
  std::vector<std::string_view> names;
  Patterns patterns;
  bool ignore_merges = false;
  bool add_bos = false;
  bool nfc = false;  // the family's own tokenizers compose characters first
};

constexpr const char* kDigit = R"(\p{N})";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

const std::vector<Family>& families() {
  static const std::vector<Family> table = {
      {{"default"}, {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Pattern, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
      {{"gpt-2", "phi-2", "olmo", "mpt", "jais", "exaone4", "trillion", "granite-docling",
        "gigachat", "mellum", "a.x-4.0"},
       {kGpt2Pattern}},
      {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"},
       {kDigit, kGpt2Pattern}},
      {{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
       {kLlama3},
       /*ignore_merges=*/true,
       /*add_bos=*/true},
      {{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, {kLlama3}},
      {{"qwen2"}, {kQwen2}, false, false, /*nfc=*/true},
      {{"deepseek-r1-qwen", "megrez", "stablelm2", "hunyuan", "grok-2", "kormo"}, {kQwen2}},
      {{"tekken"}, {kTekken}, /*ignore_merges=*/true, /*add_bos=*/true},
      {{"gpt-4o", "llama4"}, {kGpt4o}},
      {{"falcon"}, {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Pattern, "[0-9][0-9][0-9]"}},
      {{"deepseek-coder"},
       {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", "[一-龥ࠀ-一가-퟿]+", kDigit}},
      {{"deepseek-v3"}, {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+", kDeepSeek3}},
  };
  return table;
}

GgufSplit build(const Family& family) {
  GgufSplit split;
  std::vector<PreTokenizer::Step> steps;
  for (const char* pattern : family.patterns) {
    steps.emplace_back(PreTokenizer::Split{SplitRegex(pattern), SplitBehavior::kIsolated, false});
  }
  split.pre_tokenizer = PreTokenizer(std::move(steps));
  if (family.nfc) split.normalizer = Normalizer({UnicodeForm::kNfc});
  split.ignore_merges = family.ignore_merges;
  split.add_bos = family.add_bos;
  return split;
}

}  // namespace

GgufSplit gguf_split(std::string_view name) {
  std::string known;
  for (const Family& family : families()) {
    for (const std::string_view candidate : family.names) {
      if (candidate == name) return build(family);
      known += known.empty() ? "" : ", ";
      known += candidate;
    }
  }
  fail(ErrorCode::kUnsupported, "tokenizer.ggml.pre \"{}\" is not supported; known are: {}.", name,
       known);
}

}  // namespace clover
