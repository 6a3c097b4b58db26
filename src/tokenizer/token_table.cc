// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/token_table.h"

#include "base/error.h"

namespace clover {

TokenTable::TokenTable(size_t size) : entries_(size) { ids_.reserve(size); }

void TokenTable::set(TokenId id, std::string text, std::string bytes, bool control) {
  Entry& entry = entries_[static_cast<size_t>(id)];
  if (entry.present) {
    const auto old = ids_.find(entry.text);
    if (old != ids_.end() && old->second == id) ids_.erase(old);
  }
  entry = {std::move(text), std::move(bytes), true, control};
  ids_.try_emplace(entry.text, id);
}

void TokenTable::set_bytes(TokenId id, std::string bytes) {
  entries_[static_cast<size_t>(id)].bytes = std::move(bytes);
}

void TokenTable::mark_control(TokenId id) { entries_[static_cast<size_t>(id)].control = true; }

const TokenTable::Entry& TokenTable::at(TokenId id) const {
  if (!contains(id)) {
    fail(ErrorCode::kInvalidArgument, "token id {} is outside the vocabulary of {} tokens.", id,
         size());
  }
  return entries_[static_cast<size_t>(id)];
}

std::optional<TokenId> TokenTable::find(std::string_view text) const {
  const auto it = ids_.find(text);
  if (it == ids_.end()) return std::nullopt;
  return it->second;
}

}  // namespace clover
