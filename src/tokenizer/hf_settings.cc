// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/hf_settings.h"

#include <charconv>
#include <fstream>
#include <iterator>

#include "tokenizer/end_tokens.h"
#include "tokenizer/json_fields.h"

namespace clover {
namespace {

// A token is written as its text or as an object with "content".
std::optional<std::string> token_text(const Json& config, std::string_view key) {
  const Json* value = json_member(config, key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  return json_string(*value, "content");
}

void read_ids(const Json& config, std::string_view key, std::vector<int64_t>& ids) {
  const Json* value = json_member(config, key);
  if (value == nullptr) return;
  if (value->is_array()) {
    for (const Json& id : *value) ids.push_back(json_token_id(id, key));
  } else {
    ids.push_back(json_token_id(*value, key));
  }
}

void read_added(const Json& config, HfSettings& settings) {
  const Json* decoder = json_member(config, "added_tokens_decoder");
  if (decoder == nullptr) return;
  if (!decoder->is_object()) {
    fail(ErrorCode::kCorrupt, "tokenizer_config.json: \"added_tokens_decoder\" is not an object.");
  }
  for (const auto& [key, node] : decoder->items()) {
    AddedToken token = added_token_from_json(node);
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token.id);
    if (error != std::errc() || end != key.data() + key.size() || token.id < 0) {
      fail(ErrorCode::kCorrupt, "tokenizer_config.json: added token id \"{}\" is not a token id.",
           key);
    }
    settings.added.push_back(std::move(token));
  }
}

// One template, or a list of named ones of which "default" counts.
std::optional<std::string> template_of(const Json& config) {
  const Json* value = json_member(config, "chat_template");
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  if (!value->is_array()) {
    fail(ErrorCode::kCorrupt, "tokenizer_config.json: \"chat_template\" is no text and no list.");
  }
  for (const Json& named : *value) {
    if (json_string(named, "name") == "default") return json_string(named, "template");
  }
  return std::nullopt;
}

std::optional<std::string> read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::kIo, "cannot read {}.", path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::optional<bool> optional_bool(const Json& config, std::string_view key) {
  if (json_member(config, key) == nullptr) return std::nullopt;
  return json_bool(config, key, false);
}

void read_tokenizer_config(const Json& config, HfSettings& settings) {
  settings.bos_token = token_text(config, "bos_token");
  settings.eos_token = token_text(config, "eos_token");
  settings.unk_token = token_text(config, "unk_token");
  settings.pad_token = token_text(config, "pad_token");
  settings.add_bos = optional_bool(config, "add_bos_token");
  settings.add_eos = optional_bool(config, "add_eos_token");
  settings.legacy = json_bool(config, "legacy", true);
  settings.chat_template = template_of(config);
  read_added(config, settings);
}

}  // namespace

void apply_settings(const HfSettings& settings, const TokenTable& table,
                    TextTokenizer::Traits& traits) {
  const auto checked = [&](int64_t id, const char* key) {
    if (!table.contains(id)) {
      fail(ErrorCode::kCorrupt, "{} is {}, but the vocabulary has {} tokens.", key, id,
           table.size());
    }
    return static_cast<TokenId>(id);
  };
  traits.bos = settings.bos_token ? table.find(*settings.bos_token) : traits.bos;
  if (!traits.bos && !traits.prefix.empty()) traits.bos = traits.prefix.front();
  if (!traits.bos && settings.bos_id) traits.bos = checked(*settings.bos_id, "bos_token_id");

  const auto eos = table.find(settings.eos_token.value_or(""));
  if (eos) traits.eos.push_back(*eos);
  for (const int64_t id : settings.eos_ids) traits.eos.push_back(checked(id, "eos_token_id"));
  add_known_end_tokens(table, traits.eos);

  if (settings.add_bos) {
    traits.prefix.clear();
    if (*settings.add_bos && traits.bos) traits.prefix = {*traits.bos};
  }
  if (settings.add_eos) {
    traits.suffix.clear();
    if (*settings.add_eos && eos) traits.suffix = {*eos};
  }
  if (settings.chat_template) traits.chat_template = settings.chat_template;
  const std::pair<const char*, const std::optional<std::string>&> named[] = {
      {"bos_token", settings.bos_token},
      {"eos_token", settings.eos_token},
      {"unk_token", settings.unk_token},
      {"pad_token", settings.pad_token}};
  for (const auto& [name, text] : named)
    if (text) traits.template_tokens[name] = *text;
}

AddedToken added_token_from_json(const Json& node) {
  AddedToken token;
  token.content = json_string(node, "content");
  token.control = json_bool(node, "special", false);
  token.single_word = json_bool(node, "single_word", false);
  token.lstrip = json_bool(node, "lstrip", false);
  token.rstrip = json_bool(node, "rstrip", false);
  token.normalized = json_bool(node, "normalized", !token.control);
  return token;
}

HfSettings read_hf_settings(const Checkpoint& checkpoint) {
  HfSettings settings;
  if (const Json* config = checkpoint.document("tokenizer_config.json")) {
    read_tokenizer_config(*config, settings);
  }
  if (const Json* map = checkpoint.document("special_tokens_map.json")) {
    if (!settings.bos_token) settings.bos_token = token_text(*map, "bos_token");
    if (!settings.eos_token) settings.eos_token = token_text(*map, "eos_token");
    if (!settings.unk_token) settings.unk_token = token_text(*map, "unk_token");
    if (!settings.pad_token) settings.pad_token = token_text(*map, "pad_token");
  }
  if (const Json* added = checkpoint.document("added_tokens.json")) {
    for (const auto& [text, id] : added->items()) {
      AddedToken token;
      token.content = text;
      token.id = json_token_id(id, text);
      token.normalized = true;
      settings.added.push_back(std::move(token));
    }
  }
  for (const char* name : {"generation_config.json", "config.json"}) {
    const Json* config = checkpoint.document(name);
    if (config == nullptr) continue;
    read_ids(*config, "eos_token_id", settings.eos_ids);
    std::vector<int64_t> bos;
    read_ids(*config, "bos_token_id", bos);
    if (!bos.empty() && !settings.bos_id) settings.bos_id = bos.front();
  }
  if (const auto path = checkpoint.side_file("chat_template.jinja")) {
    settings.chat_template = read_text_file(*path);
  }
  return settings;
}

}  // namespace clover
