// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe_model.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/text_tokenizer.h"

namespace clover {

// Normalise, split, merge: the tokenizer of tokenizer.json and of GGUF's "gpt2" and "llama" kinds.
class PipelineTokenizer final : public TextTokenizer {
 public:
  struct Stages {
    Normalizer normalizer;
    PreTokenizer pre_tokenizer;
    BpeModel model;
    bool byte_level = false;
  };

  PipelineTokenizer(TokenTable table, Traits traits, Stages stages);

 protected:
  void encode_section(std::string_view text, Place place, std::vector<TokenId>& ids) const override;

 private:
  void encode_valid(std::string_view text, Place place, std::vector<TokenId>& ids) const;
  void encode_plain(std::string text, bool at_start, std::vector<TokenId>& ids) const;

  Stages stages_;
  AddedTokenMatcher normalized_tokens_;
  bool cut_words_ = false;
};

}  // namespace clover
