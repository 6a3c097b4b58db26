// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/token_table.h"
#include "tokenizer/tokenizer.h"

namespace clover {

// What all kinds of tokenizers share: the vocabulary, control and added tokens, BOS and EOS. Kinds
// only say how the text between added tokens is encoded.
class TextTokenizer : public Tokenizer {
 public:
  struct Traits {
    std::string kind;
    std::vector<AddedToken> added;
    std::optional<TokenId> bos;
    std::vector<TokenId> eos;
    std::vector<TokenId> prefix;  // put before every text (BOS)
    std::vector<TokenId> suffix;  // put behind every text (EOS)
    std::optional<std::string> chat_template;
    std::map<std::string, std::string> template_tokens;  // BOS is added where it is missing
    bool strip_first_space = false;  // decoding drops one space at the start of the text
  };

  using Tokenizer::encode;
  std::vector<TokenId> encode(std::span<const TextSpan> spans,
                              const EncodeOptions& options) const final;
  std::string_view token_bytes(TokenId id) const final { return table_.at(id).bytes; }
  std::string decode(std::span<const TokenId> ids, bool skip_special) const final;
  int32_t vocab_size() const final { return static_cast<int32_t>(table_.size()); }
  bool is_control(TokenId id) const final { return table_.at(id).control; }
  std::optional<TokenId> bos() const final { return traits_.bos; }
  const std::vector<TokenId>& eos_ids() const final { return traits_.eos; }
  std::optional<TokenId> find(std::string_view text) const final { return table_.find(text); }
  std::string_view kind() const final { return traits_.kind; }
  std::optional<std::string> chat_template() const final { return traits_.chat_template; }
  std::map<std::string, std::string> template_tokens() const final {
    return traits_.template_tokens;
  }

 protected:
  // Marks every added control token in the table.
  TextTokenizer(TokenTable table, Traits traits);

  // Where a section of text stands.
  struct Place {
    bool at_start = false;     // nothing comes before it
    bool after_token = false;  // an added token comes just before it
  };
  // Appends the ids of text that holds no (raw) added token; any bytes, not empty.
  virtual void encode_section(std::string_view text, Place place,
                              std::vector<TokenId>& ids) const = 0;

  const TokenTable& table() const { return table_; }
  const std::vector<AddedToken>& added() const { return traits_.added; }

 private:
  void add_special(std::vector<TokenId>& ids) const;

  TokenTable table_;
  Traits traits_;
  AddedTokenMatcher raw_tokens_;
};

}  // namespace clover
