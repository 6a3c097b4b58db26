// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace clover {

// Sets a token's bit in a mask, as SamplerState::draw takes it.
inline void allow_token(std::span<uint64_t> mask, int32_t token) {
  mask[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
}

// The tokens of a vocabulary as byte strings, arranged for going through all of them at once.
// Control tokens, which stand for no text, are left out. Immutable; a copy of what it needs of the
// tokenizer.
class TokenWords {
 public:
  // All tokens that begin with the same bytes, in one run: nodes in the order of a walk that
  // visits parents first.
  struct Node {
    uint8_t byte;
    uint16_t depth;        // bytes from the root, 1 and more
    int32_t end;           // the first node behind those that begin like this one
    int32_t tokens_begin;  // into `tokens`: those that are exactly these bytes
    int32_t tokens_end;
  };
  struct Tree {
    std::vector<Node> nodes;
    std::vector<int32_t> tokens;
    int32_t deepest = 0;
  };

  // `vocab`: ids of the model; those without a text in the tokenizer are left out.
  TokenWords(const Tokenizer& tokenizer, int32_t vocab);

  int32_t vocab() const { return vocab_; }
  size_t mask_words() const { return (static_cast<size_t>(vocab_) + 63) / 64; }
  // Empty for tokens without a text.
  std::string_view bytes(int32_t token) const;
  bool is_end(int32_t token) const;
  const std::vector<int32_t>& ends() const { return ends_; }

  const Tree& all() const { return all_; }
  // Tokens with a quote or backslash in them, which may leave a string.
  const Tree& leaving() const { return leaving_; }
  // Adds to a mask the tokens that are nothing but characters of a string when they come between
  // two characters, and begin at most that many.
  void add_plain(int64_t characters, std::span<uint64_t> mask) const;
  int32_t longest() const { return longest_; }  // bytes of a token

 private:
  int32_t vocab_;
  std::string text_;             // of all tokens
  std::vector<uint32_t> begin_;  // [vocab + 1], into text_
  std::vector<int32_t> ends_;    // end-of-text ids, sorted
  Tree all_;
  Tree leaving_;
  std::vector<uint64_t> plain_;
  std::vector<std::vector<int32_t>> plain_by_characters_;  // [characters]
  int32_t longest_ = 0;
};

}  // namespace clover
