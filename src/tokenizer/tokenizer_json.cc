// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/tokenizer_json.h"

#include <algorithm>

#include "tokenizer/end_tokens.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/pipeline_tokenizer.h"
#include "tokenizer/token_decoder.h"
#include "tokenizer/vocabulary_text.h"

namespace clover {
namespace {

std::vector<AddedToken> read_added(const Json& document) {
  std::vector<AddedToken> added;
  const Json* list = json_member(document, "added_tokens");
  if (list == nullptr) return added;
  for (const Json& node : json_array(document, "added_tokens")) {
    AddedToken token = added_token_from_json(node);
    const Json* id = json_member(node, "id");
    if (id == nullptr) {
      fail(ErrorCode::kCorrupt, "tokenizer.json: the added token \"{}\" has no id.", token.content);
    }
    token.id = json_token_id(*id, token.content);
    added.push_back(std::move(token));
  }
  return added;
}

const Json& read_model(const Json& document) {
  const Json* model = json_member(document, "model");
  if (model == nullptr || !model->is_object()) {
    fail(ErrorCode::kCorrupt, "tokenizer.json: \"model\" is missing or not an object.");
  }
  // Old documents leave the type out; only BPE has merges.
  const Json* type = json_member(*model, "type");
  if (type == nullptr && json_member(*model, "merges") != nullptr) return *model;
  const std::string name = json_string(*model, "type");
  if (name != "BPE") {
    fail(ErrorCode::kUnsupported, "tokenizer.json: the model \"{}\" is not supported, only BPE is.",
         name);
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json* value = json_member(*model, key);
    if (value != nullptr && *value != "") {
      fail(ErrorCode::kUnsupported, "tokenizer.json: \"{}\" is not supported.", key);
    }
  }
  return *model;
}

// A table that has room for all ids; gaps between ids are legal, but not a wild id that would make
// it huge.
TokenTable make_table(const Json& vocabulary, const std::vector<AddedToken>& added) {
  int64_t largest = -1;
  for (const auto& [text, id] : vocabulary.items()) {
    largest = std::max<int64_t>(largest, json_token_id(id, text));
  }
  for (const AddedToken& token : added) largest = std::max<int64_t>(largest, token.id);
  const size_t count = vocabulary.size() + added.size();
  if (largest < 0) fail(ErrorCode::kCorrupt, "tokenizer.json: the vocabulary is empty.");
  if (static_cast<size_t>(largest) > count * 4 + 65'536 ||
      static_cast<size_t>(largest) >= kLargestVocabulary) {
    fail(ErrorCode::kCorrupt, "tokenizer.json: id {} is far beyond the {} tokens there are.",
         largest, count);
  }
  return TokenTable(static_cast<size_t>(largest) + 1);
}

TokenTable read_table(const Json& vocabulary, const std::vector<AddedToken>& added,
                      const TokenDecoder& decoder) {
  TokenTable table = make_table(vocabulary, added);
  for (const auto& [text, id_node] : vocabulary.items()) {
    const TokenId id = json_token_id(id_node, text);
    if (table.at(id).present) {
      fail(ErrorCode::kCorrupt, "tokenizer.json: \"{}\" and \"{}\" share the id {}.",
           table.at(id).text, text, id);
    }
    table.set(id, text, decoder.bytes_of(text), false);
  }
  for (const AddedToken& token : added) {
    const TokenTable::Entry& entry = table.at(token.id);
    const auto known = table.find(token.content);
    if ((entry.present && entry.text != token.content) || (known && *known != token.id)) {
      fail(ErrorCode::kCorrupt,
           "tokenizer.json: the added token \"{}\" with id {} contradicts the vocabulary.",
           token.content, token.id);
    }
    table.set(token.id, token.content, token.content, token.control);
  }
  return table;
}

// Merges are "left right" or ["left", "right"].
BpeModel read_bpe(const Json& model, const TokenTable& table, bool byte_level) {
  BpeModel::Options options;
  options.byte_level = byte_level;
  options.byte_fallback = json_bool(model, "byte_fallback", false);
  options.fuse_unknown = json_bool(model, "fuse_unk", false);
  options.ignore_merges = json_bool(model, "ignore_merges", false);
  if (json_member(model, "unk_token") != nullptr) {
    const std::string text = json_string(model, "unk_token");
    options.unknown = table.find(text);
    if (!options.unknown) {
      fail(ErrorCode::kCorrupt,
           "tokenizer.json: the unknown token \"{}\" is not in the vocabulary.", text);
    }
  }
  std::vector<BpeModel::TextPair> merges;
  for (const Json& merge : json_array(model, "merges")) {
    if (merge.is_string()) {
      merges.push_back(split_merge(merge.get_ref<const std::string&>()));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      merges.emplace_back(merge[0].get_ref<const std::string&>(),
                          merge[1].get_ref<const std::string&>());
    } else {
      fail(ErrorCode::kCorrupt, "tokenizer.json: merge {} is neither a text nor a pair of texts.",
           merges.size());
    }
  }
  return BpeModel::from_merges(table, options, merges);
}

void check_id(const TokenTable& table, TokenId id) {
  if (!table.contains(id)) {
    fail(ErrorCode::kCorrupt,
         "tokenizer.json: the post-processor names id {}, but there are {} tokens.", id,
         table.size());
  }
}

// The ids that the "single" template puts before and behind the text.
void read_template(const Json& node, const TokenTable& table, TextTokenizer::Traits& traits) {
  bool behind = false;
  for (const Json& part : json_array(node, "single")) {
    if (json_member(part, "Sequence") != nullptr) {
      behind = true;
      continue;
    }
    const Json* special = json_member(part, "SpecialToken");
    if (special == nullptr) {
      fail(ErrorCode::kUnsupported, "tokenizer.json: unknown part of a post-processor template.");
    }
    const std::string name = json_string(*special, "id");
    const Json* tokens = json_member(node, "special_tokens");
    const Json* entry = tokens == nullptr ? nullptr : json_member(*tokens, name);
    if (entry == nullptr) {
      fail(ErrorCode::kCorrupt, "tokenizer.json: the post-processor lacks the token \"{}\".", name);
    }
    for (const Json& id_node : json_array(*entry, "ids")) {
      const TokenId id = json_token_id(id_node, name);
      check_id(table, id);
      (behind ? traits.suffix : traits.prefix).push_back(id);
    }
  }
}

// ["</s>", 2] of Bert's and Roberta's post-processors.
TokenId read_token_pair(const Json& node, const char* key, const TokenTable& table) {
  const Json& pair = json_array(node, key);
  if (pair.size() != 2) fail(ErrorCode::kCorrupt, "tokenizer.json: \"{}\" is not a pair.", key);
  const TokenId id = json_token_id(pair[1], key);
  check_id(table, id);
  return id;
}

void read_post_processor(const Json& node, const TokenTable& table, TextTokenizer::Traits& traits) {
  const std::string type = json_string(node, "type");
  if (type == "Sequence") {
    for (const Json& child : json_array(node, "processors")) {
      read_post_processor(child, table, traits);
    }
  } else if (type == "TemplateProcessing") {
    read_template(node, table, traits);
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    traits.prefix.push_back(read_token_pair(node, "cls", table));
    traits.suffix.push_back(read_token_pair(node, "sep", table));
  } else if (type != "ByteLevel") {
    fail(ErrorCode::kUnsupported, "tokenizer.json: the post-processor \"{}\" is not supported.",
         type);
  }
}

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_from_json(const Json& document, const HfSettings& settings) {
  if (!document.is_object()) fail(ErrorCode::kCorrupt, "tokenizer.json is not an object.");
  const Json& model_node = read_model(document);
  const Json* vocabulary = json_member(model_node, "vocab");
  if (vocabulary == nullptr || !vocabulary->is_object()) {
    fail(ErrorCode::kCorrupt, "tokenizer.json: \"vocab\" is missing or not an object.");
  }
  bool byte_level = false;
  Normalizer normalizer = Normalizer::from_json(json_member(document, "normalizer"));
  PreTokenizer pre_tokenizer =
      PreTokenizer::from_json(json_member(document, "pre_tokenizer"), byte_level);
  const TokenDecoder decoder =
      TokenDecoder::from_json(json_member(document, "decoder"), byte_level);

  TextTokenizer::Traits traits;
  traits.kind = byte_level ? "byte-level BPE" : "SentencePiece BPE";
  traits.added = read_added(document);
  traits.strip_first_space = decoder.strip_first_space();
  TokenTable table = read_table(*vocabulary, traits.added, decoder);
  if (const Json* post = json_member(document, "post_processor")) {
    read_post_processor(*post, table, traits);
  }
  apply_settings(settings, table, traits);
  BpeModel model = read_bpe(model_node, table, byte_level);
  return std::make_unique<PipelineTokenizer>(
      std::move(table), std::move(traits),
      PipelineTokenizer::Stages{std::move(normalizer), std::move(pre_tokenizer), std::move(model),
                                byte_level});
}

}  // namespace clover
