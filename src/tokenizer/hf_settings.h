// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/text_tokenizer.h"

namespace clover {

// What a Hugging Face folder says about its tokenizer outside tokenizer.json and tokenizer.model.
struct HfSettings {
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  std::optional<std::string> unk_token;
  std::optional<std::string> pad_token;
  std::optional<int64_t> bos_id;  // generation_config.json or config.json
  std::vector<int64_t> eos_ids;   // both files' eos_token_id
  std::optional<bool> add_bos;    // nothing: as the tokenizer's post-processor says
  std::optional<bool> add_eos;
  std::vector<AddedToken> added;  // added_tokens_decoder, added_tokens.json
  bool legacy = true;             // of the Llama tokenizer: a space before every text section
  std::optional<std::string> chat_template;
};

// Error(kCorrupt) naming the field when one has the wrong type.
HfSettings read_hf_settings(const Checkpoint& checkpoint);

// Completes what the tokenizer's own file said: BOS and EOS ids, whether they are added to every
// text, and the chat template. Ids outside the vocabulary are an Error(kCorrupt).
void apply_settings(const HfSettings& settings, const TokenTable& table,
                    TextTokenizer::Traits& traits);

// The flags of one entry of "added_tokens" or "added_tokens_decoder", without its id.
AddedToken added_token_from_json(const Json& node);

}  // namespace clover
