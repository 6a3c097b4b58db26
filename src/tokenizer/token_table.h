// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace clover {

// All entries of a vocabulary: id ↔ text, the bytes an id stands for, and which ids are control
// tokens.
class TokenTable {
 public:
  struct Entry {
    std::string text;   // as the vocabulary spells it
    std::string bytes;  // what it decodes to
    bool present = false;
    bool control = false;
  };

  // `size` is one more than the largest id; ids that are never set decode to nothing.
  explicit TokenTable(size_t size);
  TokenTable(TokenTable&&) = default;
  TokenTable& operator=(TokenTable&&) = default;

  // Sets an id; a text that two ids share is found as the lower one set first.
  void set(TokenId id, std::string text, std::string bytes, bool control);
  void set_bytes(TokenId id, std::string bytes);
  void mark_control(TokenId id);

  size_t size() const { return entries_.size(); }
  bool contains(int64_t id) const { return id >= 0 && id < static_cast<int64_t>(size()); }
  // Error(kInvalidArgument) when the id is outside the vocabulary.
  const Entry& at(TokenId id) const;
  std::optional<TokenId> find(std::string_view text) const;

 private:
  std::vector<Entry> entries_;  // never resized: ids_ refers to its strings
  std::unordered_map<std::string_view, TokenId> ids_;
};

}  // namespace clover
