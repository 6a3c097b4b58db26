// SPDX-License-Identifier: Apache-2.0
#pragma once

// Helpers of this room's tests: a tiny model with a tokenizer of printable characters and a chat
// template, and samples made up.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/test_util.h"
#include "engine/engine.h"
#include "train/distiller.h"
#include "train/shard.h"

namespace clover::train_testing {

inline constexpr const char* kFingerprint =
    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
inline constexpr const char* kTemplate =
    "{% for m in messages %}{% if m.role == 'user' %}[{{ m.content }}]{% else %}"
    "{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}";

// A folder with the tiny llama2 model, whose 96 tokens are <s>, </s>, the space and '!' … '}'.
inline void write_tiny_model(const std::string& folder, const std::string& chat_template) {
  namespace fs = std::filesystem;
  fs::create_directories(folder);
  const std::string from = std::string(CLOVER_SOURCE_DIR) + "/tests/data/tiny/llama2/";
  for (const char* name : {"config.json", "model.safetensors"})
    fs::copy_file(from + name, folder + "/" + name);
  Json vocab = {{"<s>", 0}, {"</s>", 1}, {"\u0120", 2}};
  for (int code = 33; code <= 125; ++code)
    vocab[std::string(1, static_cast<char>(code))] = code - 30;
  const auto special = [](int id, const char* text) {
    return Json{{"id", id}, {"content", text}, {"special", true}};
  };
  const Json tokenizer = {
      {"version", "1.0"},
      {"added_tokens", {special(0, "<s>"), special(1, "</s>")}},
      {"normalizer", nullptr},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"model", {{"type", "BPE"}, {"merges", Json::array()}, {"vocab", vocab}}}};
  write_file(folder + "/tokenizer.json", tokenizer.dump());
  Json config = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  if (!chat_template.empty()) config["chat_template"] = chat_template;
  write_file(folder + "/tokenizer_config.json", config.dump());
}

inline DistilledSample made_up(uint32_t task, std::vector<TokenId> prompt,
                               std::vector<TokenId> answer) {
  DistilledSample sample;
  sample.ids = prompt;
  sample.mask.assign(prompt.size(), 0);
  sample.ids.insert(sample.ids.end(), answer.begin(), answer.end());
  sample.mask.resize(sample.ids.size(), 1);
  sample.prompt_hash = 1000 + task;
  sample.temperature = task % 2 == 0 ? 0.0f : 1.0f;
  sample.ended = task % 2 == 0;
  sample.task = task;
  sample.turns = 1;
  return sample;
}

inline bool same_sample(const DistilledSample& a, const DistilledSample& b) {
  return a.ids == b.ids && a.mask == b.mask && a.prompt_hash == b.prompt_hash &&
         a.temperature == b.temperature && a.ended == b.ended && a.self_drawn == b.self_drawn &&
         a.task == b.task && a.first_turn == b.first_turn && a.turns == b.turns;
}

}  // namespace clover::train_testing
