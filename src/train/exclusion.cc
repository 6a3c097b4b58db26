// SPDX-License-Identifier: Apache-2.0
#include "train/exclusion.h"

#include <utf8proc.h>

#include <span>

#include "base/error.h"
#include "base/random.h"
#include "tokenizer/utf8.h"
#include "train/prompt_file.h"

namespace clover {
namespace {

constexpr char32_t kFirstWithoutSpaces = 0x2E80;  // CJK and what follows

std::string folded(std::string_view text) {
  const std::string valid = utf8_replace_invalid(text);
  utf8proc_uint8_t* out = nullptr;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPAT | UTF8PROC_COMPOSE |
                                                      UTF8PROC_CASEFOLD | UTF8PROC_IGNORE);
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(valid.data()),
                   static_cast<utf8proc_ssize_t>(valid.size()), &out, options);
  if (length < 0)
    fail(ErrorCode::kExhausted, "a text of {} bytes cannot be folded: {}", text.size(),
         utf8proc_errmsg(length));
  std::string result(reinterpret_cast<const char*>(out), static_cast<size_t>(length));
  std::free(out);
  return result;
}

bool is_word(utf8proc_category_t category) {
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NO;
}

uint64_t hash_all(std::span<const uint64_t> words) { return mix_all(mix64(words.size()), words); }

}  // namespace

std::vector<uint64_t> word_hashes(std::string_view text) {
  const std::string plain = folded(text);
  std::vector<uint64_t> words;
  uint64_t word = 0;
  bool inside = false;
  const auto end_word = [&] {
    if (inside) words.push_back(word);
    inside = false;
    word = 0;
  };
  for (size_t at = 0; at < plain.size();) {
    const Utf8Char c = utf8_at(plain, at);
    at += c.length;
    const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c.code));
    const bool alone = category == UTF8PROC_CATEGORY_LO && c.code >= kFirstWithoutSpaces;
    if (!is_word(category) || alone) end_word();
    if (!is_word(category)) continue;
    inside = true;
    word = mix64(word ^ c.code);
    if (alone) end_word();
  }
  end_word();
  return words;
}

void ExclusionSet::add(std::string_view text) {
  const std::vector<uint64_t> words = word_hashes(text);
  if (words.empty()) return;
  if (words.size() < kWords) short_texts_.insert(hash_all(words));
  for (size_t i = 0; i + kWords <= words.size(); ++i)
    runs_.insert(hash_all(std::span(words).subspan(i, kWords)));
}

void ExclusionSet::add_file(const std::string& path) {
  read_prompts(path, false, [&](const UserTurns& turns, const std::string&) {
    for (const std::string& turn : turns) add(turn);
  });
}

bool ExclusionSet::matches(std::string_view text) const {
  if (empty()) return false;
  const std::vector<uint64_t> words = word_hashes(text);
  if (words.size() < kWords) return short_texts_.contains(hash_all(words));
  for (size_t i = 0; i + kWords <= words.size(); ++i)
    if (runs_.contains(hash_all(std::span(words).subspan(i, kWords)))) return true;
  return false;
}

}  // namespace clover
