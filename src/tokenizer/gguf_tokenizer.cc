// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/gguf_tokenizer.h"

#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/end_tokens.h"
#include "tokenizer/gguf_splits.h"
#include "tokenizer/pipeline_tokenizer.h"
#include "tokenizer/vocabulary_text.h"

namespace clover {
namespace {

// The values of tokenizer.ggml.token_type.
enum TokenType : int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// Some writers store "no such token" as the largest 32-bit number.
constexpr int64_t kNoToken = 0xFFFFFFFF;

// The vocabulary's keys, checked against each other.
struct GgufVocabulary {
  const Checkpoint& checkpoint;
  const std::vector<std::string>& tokens;
  std::vector<int64_t> types;  // one per token

  std::optional<TokenId> id(std::string_view name) const {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
    const auto value = checkpoint.meta_int(key);
    if (!value || *value == kNoToken || *value == -1) return std::nullopt;
    if (*value < 0 || *value >= static_cast<int64_t>(tokens.size())) {
      fail(ErrorCode::kCorrupt, "{}: {} is {}, but the vocabulary has {} tokens.",
           checkpoint.path(), key, *value, tokens.size());
    }
    return static_cast<TokenId>(*value);
  }

  bool flag(std::string_view name, bool otherwise) const {
    return checkpoint.meta_bool(fmt::format("tokenizer.ggml.{}", name)).value_or(otherwise);
  }
};

// Files without types still must not let text spell their BOS or EOS.
std::vector<int64_t> guess_types(const GgufVocabulary& vocabulary) {
  std::vector<int64_t> types(vocabulary.tokens.size(), kNormal);
  for (size_t i = 0; i < types.size(); ++i) {
    if (parse_byte_token(vocabulary.tokens[i])) types[i] = kByte;
  }
  for (const char* name : {"bos", "eos", "eot", "eom", "unknown"}) {
    const auto id = vocabulary.id(name);
    if (!id) continue;
    const std::string& text = vocabulary.tokens[static_cast<size_t>(*id)];
    if (text.starts_with('<') && text.ends_with('>')) types[static_cast<size_t>(*id)] = kControl;
  }
  return types;
}

GgufVocabulary read_vocabulary(const Checkpoint& checkpoint) {
  const auto* tokens = checkpoint.meta_strings("tokenizer.ggml.tokens");
  if (tokens == nullptr || tokens->empty()) {
    fail(ErrorCode::kNotFound, "{}: tokenizer.ggml.tokens is missing or empty.", checkpoint.path());
  }
  if (tokens->size() > kLargestVocabulary) {
    fail(ErrorCode::kCorrupt, "{}: tokenizer.ggml.tokens has {} entries.", checkpoint.path(),
         tokens->size());
  }
  GgufVocabulary vocabulary{checkpoint, *tokens, {}};
  if (auto types = checkpoint.meta_ints("tokenizer.ggml.token_type")) {
    vocabulary.types = std::move(*types);
  } else {
    vocabulary.types = guess_types(vocabulary);
  }
  if (vocabulary.types.size() != tokens->size()) {
    fail(ErrorCode::kCorrupt, "{}: tokenizer.ggml.token_type has {} entries for {} tokens.",
         checkpoint.path(), vocabulary.types.size(), tokens->size());
  }
  return vocabulary;
}

bool is_control_type(int64_t type) { return type == kControl || type == kUnknown; }

// The table and the added tokens; `to_bytes` turns a normal entry's text into its bytes.
TokenTable make_table(const GgufVocabulary& vocabulary, std::string (*to_bytes)(const std::string&),
                      std::vector<AddedToken>& added) {
  TokenTable table(vocabulary.tokens.size());
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string& text = vocabulary.tokens[i];
    const int64_t type = vocabulary.types[i];
    const auto id = static_cast<TokenId>(i);
    const bool control = is_control_type(type);
    if (control || type == kUserDefined) {
      AddedToken token;
      token.content = control ? text : replace_space_markers(text);
      token.id = id;
      token.control = control;
      table.set(id, text, token.content, control);
      added.push_back(std::move(token));
    } else {
      table.set(id, text, to_bytes(text), false);
    }
  }
  return table;
}

void set_special_ids(const GgufVocabulary& vocabulary, const TokenTable& table, bool add_bos,
                     TextTokenizer::Traits& traits) {
  traits.bos = vocabulary.id("bos");
  for (const char* name : {"eos", "eot", "eom"}) {
    if (const auto id = vocabulary.id(name)) traits.eos.push_back(*id);
  }
  if (vocabulary.flag("add_bos_token", add_bos) && traits.bos) traits.prefix = {*traits.bos};
  if (vocabulary.flag("add_eos_token", false)) {
    if (const auto id = vocabulary.id("eos")) traits.suffix = {*id};
  }
  add_known_end_tokens(table, traits.eos);
  traits.chat_template = vocabulary.checkpoint.meta_string("tokenizer.chat_template");
  constexpr std::pair<const char*, const char*> kTemplateNames[] = {{"bos", "bos_token"},
                                                                    {"eos", "eos_token"},
                                                                    {"unknown", "unk_token"},
                                                                    {"padding", "pad_token"}};
  for (const auto& [key, name] : kTemplateNames) {
    // Many files name a padding token that they do not have; nothing else reads it.
    const auto id = vocabulary.checkpoint.meta_int(fmt::format("tokenizer.ggml.{}_token_id", key));
    if (id && table.contains(*id))
      traits.template_tokens[name] = table.at(static_cast<TokenId>(*id)).bytes;
  }
}

std::unique_ptr<Tokenizer> byte_level_bpe(const GgufVocabulary& vocabulary) {
  const Checkpoint& checkpoint = vocabulary.checkpoint;
  GgufSplit split = gguf_split(checkpoint.meta_string("tokenizer.ggml.pre").value_or("default"));
  TextTokenizer::Traits traits;
  traits.kind = "byte-level BPE";
  TokenTable table = make_table(
      vocabulary, [](const std::string& text) { return letters_to_bytes(text).value_or(text); },
      traits.added);
  set_special_ids(vocabulary, table, split.add_bos, traits);

  const auto* lines = checkpoint.meta_strings("tokenizer.ggml.merges");
  if (lines == nullptr) {
    fail(ErrorCode::kNotFound, "{}: tokenizer.ggml.merges is missing.", checkpoint.path());
  }
  std::vector<BpeModel::TextPair> merges;
  merges.reserve(lines->size());
  for (const std::string& line : *lines) merges.push_back(split_merge(line));
  BpeModel::Options options;
  options.byte_level = true;
  options.ignore_merges = split.ignore_merges;
  BpeModel model = BpeModel::from_merges(table, options, merges);
  return std::make_unique<PipelineTokenizer>(
      std::move(table), std::move(traits),
      PipelineTokenizer::Stages{std::move(split.normalizer), std::move(split.pre_tokenizer),
                                std::move(model), true});
}

std::vector<double> read_scores(const GgufVocabulary& vocabulary) {
  const auto scores = vocabulary.checkpoint.meta_floats("tokenizer.ggml.scores");
  if (!scores || scores->size() != vocabulary.tokens.size()) {
    fail(ErrorCode::kCorrupt, "{}: tokenizer.ggml.scores has {} entries for {} tokens.",
         vocabulary.checkpoint.path(), scores ? scores->size() : 0, vocabulary.tokens.size());
  }
  for (const double score : *scores) {
    if (!std::isfinite(score)) {
      fail(ErrorCode::kCorrupt, "{}: tokenizer.ggml.scores holds a value that is not finite.",
           vocabulary.checkpoint.path());
    }
  }
  return *scores;
}

// Spaces become markers, and one is put before every section of text.
Normalizer space_normalizer(bool prefix) {
  std::vector<Normalizer::Step> steps;
  if (prefix) steps.emplace_back(Normalizer::Prepend{" "});
  steps.emplace_back(Normalizer::Replace{SplitRegex::literal(" "), std::string(kSpaceMarker)});
  return Normalizer(std::move(steps));
}

std::unique_ptr<Tokenizer> sentencepiece_bpe(const GgufVocabulary& vocabulary) {
  TextTokenizer::Traits traits;
  traits.kind = "SentencePiece BPE";
  traits.strip_first_space = vocabulary.flag("add_space_prefix", true);
  TokenTable table = make_table(
      vocabulary, [](const std::string& text) { return replace_space_markers(text); },
      traits.added);
  BpeModel::Options options;
  options.fuse_unknown = true;
  options.unknown = vocabulary.id("unknown");
  std::vector<bool> mergeable(table.size());
  for (size_t i = 0; i < table.size(); ++i) {
    const int64_t type = vocabulary.types[i];
    mergeable[i] = type == kNormal || type == kUserDefined;
    if (type != kByte) continue;
    options.byte_fallback = true;
    const auto byte = parse_byte_token(vocabulary.tokens[i]);
    if (byte) {
      table.set_bytes(static_cast<TokenId>(i), std::string(1, static_cast<char>(*byte)));
    }
  }
  set_special_ids(vocabulary, table, true, traits);
  BpeModel model = BpeModel::from_scores(table, options, read_scores(vocabulary), mergeable);
  const bool prefix = traits.strip_first_space;
  return std::make_unique<PipelineTokenizer>(
      std::move(table), std::move(traits),
      PipelineTokenizer::Stages{space_normalizer(prefix), PreTokenizer(), std::move(model), false});
}

}  // namespace

std::unique_ptr<Tokenizer> gguf_tokenizer(const Checkpoint& checkpoint) {
  const auto model = checkpoint.meta_string("tokenizer.ggml.model");
  if (!model) {
    fail(ErrorCode::kNotFound, "{} has no tokenizer: tokenizer.ggml.model is missing.",
         checkpoint.path());
  }
  if (*model == "gpt2") return byte_level_bpe(read_vocabulary(checkpoint));
  if (*model == "llama") return sentencepiece_bpe(read_vocabulary(checkpoint));
  fail(ErrorCode::kUnsupported,
       "{}: tokenizer.ggml.model \"{}\" is not supported; known are: gpt2, llama.",
       checkpoint.path(), *model);
}

}  // namespace clover
