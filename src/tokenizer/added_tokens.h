// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/split_regex.h"
#include "tokenizer/tokenizer.h"

namespace clover {

// A vocabulary entry that is looked for in the text before any splitting.
struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool control = false;      // found in trusted text only
  bool single_word = false;  // only between non-word characters
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // takes the white space behind it along
  bool normalized = false;   // looked for in normalised text
};

// A part of a text: an added token, or (id < 0) text between them.
struct TextSection {
  TextRange range;
  TokenId id = -1;
};

// Finds added tokens: leftmost first, the longest among those that begin at one place.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher();
  // Ignores tokens with empty content; of two equal contents the first counts.
  void add(const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  // Cuts `text` (valid UTF-8 or not) into sections without gaps. `may_be_control(range)` says
  // whether a control token may be found there. Adds nothing for an empty text.
  void split(std::string_view text, const std::function<bool(TextRange)>& may_be_control,
             std::vector<TextSection>& sections) const;

 private:
  // The token that matches at `pos`, or null.
  const AddedToken* match_at(std::string_view text, size_t pos,
                             const std::function<bool(TextRange)>& may_be_control) const;

  std::vector<AddedToken> tokens_;
  std::array<bool, 256> first_{};  // bytes that begin a token
  // A trie: key node << 8 | byte.
  std::unordered_map<uint64_t, uint32_t> edges_;
  std::vector<int32_t> accepted_;  // per node the index of the token that ends there, or -1
};

}  // namespace clover
