// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/added_tokens.h"

#include "tokenizer/utf8.h"

namespace clover {
namespace {

size_t white_space_end(std::string_view text, size_t pos) {
  while (pos < text.size()) {
    const Utf8Char c = utf8_at(text, pos);
    if (c.status != Utf8Char::Status::kValid || !is_white_space(c.code)) break;
    pos += c.length;
  }
  return pos;
}

size_t white_space_begin(std::string_view text, size_t pos, size_t least) {
  while (pos > least) {
    const size_t previous = utf8_previous(text, pos);
    if (previous < least) break;
    const Utf8Char c = utf8_at(text, previous);
    if (previous + c.length != pos || !is_white_space(c.code)) break;
    pos = previous;
  }
  return pos;
}

bool stands_alone(std::string_view text, TextRange match) {
  const bool word_before =
      match.begin > 0 && is_word_char(utf8_at(text, utf8_previous(text, match.begin)).code);
  const bool word_behind = match.end < text.size() && is_word_char(utf8_at(text, match.end).code);
  return !word_before && !word_behind;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher() : accepted_{-1} {}

void AddedTokenMatcher::add(const AddedToken& token) {
  if (token.content.empty()) return;
  uint64_t node = 0;
  for (const char c : token.content) {
    const uint64_t key = node << 8 | static_cast<uint8_t>(c);
    const auto [edge, is_new] = edges_.try_emplace(key, static_cast<uint32_t>(accepted_.size()));
    if (is_new) accepted_.push_back(-1);
    node = edge->second;
  }
  if (accepted_[node] >= 0) return;
  accepted_[node] = static_cast<int32_t>(tokens_.size());
  first_[static_cast<uint8_t>(token.content[0])] = true;
  tokens_.push_back(token);
}

const AddedToken* AddedTokenMatcher::match_at(
    std::string_view text, size_t pos, const std::function<bool(TextRange)>& may_be_control) const {
  const AddedToken* found = nullptr;
  uint64_t node = 0;
  for (size_t end = pos; end < text.size();) {
    const auto edge = edges_.find(node << 8 | static_cast<uint8_t>(text[end]));
    if (edge == edges_.end()) break;
    node = edge->second;
    ++end;
    if (accepted_[node] < 0) continue;
    const AddedToken& token = tokens_[static_cast<size_t>(accepted_[node])];
    if (!token.control || may_be_control({pos, end})) found = &token;
  }
  return found;
}

void AddedTokenMatcher::split(std::string_view text,
                              const std::function<bool(TextRange)>& may_be_control,
                              std::vector<TextSection>& sections) const {
  size_t done = 0;
  for (size_t pos = 0; pos < text.size();) {
    if (!first_[static_cast<uint8_t>(text[pos])]) {
      ++pos;
      continue;
    }
    const AddedToken* token = match_at(text, pos, may_be_control);
    if (token == nullptr) {
      ++pos;
      continue;
    }
    TextRange match{pos, pos + token->content.size()};
    pos = match.end;
    if (token->single_word && !stands_alone(text, match)) continue;
    if (token->lstrip) match.begin = white_space_begin(text, match.begin, done);
    if (token->rstrip) match.end = white_space_end(text, match.end);
    if (done < match.begin) sections.push_back({{done, match.begin}, -1});
    sections.push_back({match, token->id});
    done = match.end;
    pos = match.end;
  }
  if (done < text.size()) sections.push_back({{done, text.size()}, -1});
}

}  // namespace clover
