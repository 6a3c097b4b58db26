// SPDX-License-Identifier: Apache-2.0
#include "constraint/token_words.h"

#include <algorithm>
#include <limits>

#include "constraint/scalar_steps.h"

namespace clover {
namespace {

// Tokens beyond this are left out: no vocabulary has text of that length in a token.
constexpr size_t kLongestToken = std::numeric_limits<uint16_t>::max();

// Characters that the bytes begin when they come between two characters of a string, -1 when they
// cannot or leave it.
int32_t plain_characters(std::string_view bytes) {
  auto phase = GrammarFrame::Phase::kInside;
  int32_t count = 0;
  for (const char c : bytes) {
    if (c == '"' || c == '\\') return -1;
    if (phase == GrammarFrame::Phase::kInside) ++count;
    phase = step_utf8(phase, static_cast<uint8_t>(c));
    if (phase == GrammarFrame::Phase::kStart) return -1;
  }
  return count;
}

// `tokens` sorted by their bytes.
TokenWords::Tree make_tree(const TokenWords& words, const std::vector<int32_t>& tokens) {
  TokenWords::Tree tree;
  std::vector<int32_t> way;  // nodes from the root to the last one
  std::string_view before;
  const auto close = [&](size_t depth) {
    for (; way.size() > depth; way.pop_back())
      tree.nodes[static_cast<size_t>(way.back())].end = static_cast<int32_t>(tree.nodes.size());
  };
  for (const int32_t token : tokens) {
    const std::string_view bytes = words.bytes(token);
    const auto differ = std::mismatch(bytes.begin(), bytes.end(), before.begin(), before.end());
    const auto shared = static_cast<size_t>(differ.first - bytes.begin());
    close(shared);
    for (size_t i = shared; i < bytes.size(); ++i) {
      way.push_back(static_cast<int32_t>(tree.nodes.size()));
      const auto at = static_cast<int32_t>(tree.tokens.size());
      tree.nodes.push_back(
          {static_cast<uint8_t>(bytes[i]), static_cast<uint16_t>(i + 1), 0, at, at});
    }
    tree.tokens.push_back(token);
    tree.nodes[static_cast<size_t>(way.back())].tokens_end =
        static_cast<int32_t>(tree.tokens.size());
    tree.deepest = std::max(tree.deepest, static_cast<int32_t>(bytes.size()));
    before = bytes;
  }
  close(0);
  return tree;
}

}  // namespace

TokenWords::TokenWords(const Tokenizer& tokenizer, int32_t vocab)
    : vocab_(vocab), begin_(static_cast<size_t>(vocab) + 1, 0) {
  for (const TokenId id : tokenizer.eos_ids())
    if (id >= 0 && id < vocab) ends_.push_back(id);
  plain_.assign(mask_words(), 0);
  std::vector<int32_t> tokens;
  for (int32_t id = 0; id < vocab; ++id) {
    begin_[static_cast<size_t>(id)] = static_cast<uint32_t>(text_.size());
    if (id >= tokenizer.vocab_size() || tokenizer.is_control(id) || is_end(id)) continue;
    const std::string_view bytes = tokenizer.token_bytes(id);
    if (bytes.empty() || bytes.size() > kLongestToken) continue;
    text_ += bytes;
    tokens.push_back(id);
    longest_ = std::max(longest_, static_cast<int32_t>(bytes.size()));
    const int32_t characters = plain_characters(bytes);
    if (characters < 0) continue;
    allow_token(plain_, id);
    const auto row = static_cast<size_t>(characters);
    if (plain_by_characters_.size() <= row) plain_by_characters_.resize(row + 1);
    plain_by_characters_[row].push_back(id);
  }
  begin_.back() = static_cast<uint32_t>(text_.size());
  std::ranges::sort(tokens, [&](int32_t a, int32_t b) {
    return bytes(a) != bytes(b) ? bytes(a) < bytes(b) : a < b;
  });
  all_ = make_tree(*this, tokens);
  std::erase_if(tokens, [&](int32_t token) {
    return bytes(token).find_first_of("\"\\") == std::string_view::npos;
  });
  leaving_ = make_tree(*this, tokens);
}

std::string_view TokenWords::bytes(int32_t token) const {
  const auto at = static_cast<size_t>(token);
  return std::string_view(text_).substr(begin_[at], begin_[at + 1] - begin_[at]);
}

bool TokenWords::is_end(int32_t token) const {
  return std::binary_search(ends_.begin(), ends_.end(), token);
}

void TokenWords::add_plain(int64_t characters, std::span<uint64_t> mask) const {
  if (characters + 1 >= std::ssize(plain_by_characters_)) {
    for (size_t i = 0; i < mask.size(); ++i) mask[i] |= plain_[i];
    return;
  }
  for (int64_t row = 0; row <= characters; ++row)
    for (const int32_t token : plain_by_characters_[static_cast<size_t>(row)])
      allow_token(mask, token);
}

}  // namespace clover
