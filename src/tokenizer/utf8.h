// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace clover {

// What stands at one place of a byte string that should be UTF-8.
struct Utf8Char {
  enum class Status {
    kValid,
    kInvalid,     // `length` bytes that no continuation can make valid: one U+FFFD
    kIncomplete,  // the string ends inside a character that is valid so far
  };
  char32_t code = 0xFFFD;
  size_t length = 0;
  Status status = Status::kInvalid;
};

// The character that begins at `pos` (less than text.size()). Invalid bytes are grouped as the
// WHATWG decoder and Python's errors="replace" do: the longest prefix of a well-formed sequence, at
// least one byte.
Utf8Char utf8_at(std::string_view text, size_t pos);

// The start of the character that ends just before `pos` (greater than 0). Text must be valid.
size_t utf8_previous(std::string_view text, size_t pos);

// Length of the longest valid prefix.
size_t utf8_valid_prefix(std::string_view text);

// Length of the longest prefix in which no valid character begins.
size_t utf8_invalid_prefix(std::string_view text);

void append_utf8(std::string& out, char32_t code);

// Replaces every invalid or unfinished sequence by U+FFFD.
std::string utf8_replace_invalid(std::string_view text);

// Unicode's White_Space property.
bool is_white_space(char32_t code);
// Letters, marks, decimal and letter numbers, connector punctuation and joiners (regular
// expressions' \w).
bool is_word_char(char32_t code);

}  // namespace clover
