// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace clover {

// Characters as Python's str sees them. A byte that is not valid UTF-8 counts as one character.

struct CodePoint {
  int32_t value;  // -1 for an invalid byte
  size_t length;  // in bytes, at least 1
};
// The character at `at` < text.size().
CodePoint code_point_at(std::string_view text, size_t at);
void append_utf8(std::string& out, int32_t code_point);

size_t count_code_points(std::string_view text);
// The byte where character number `index` begins; text.size() past the end.
size_t byte_of_code_point(std::string_view text, size_t index);

// str.isspace() of one character.
bool is_python_space(int32_t code_point);
bool is_python_printable(int32_t code_point);
bool is_letter(int32_t code_point);
// \w of a Unicode regular expression.
bool is_word(int32_t code_point);
// The full mapping for the letters of general use (ß becomes SS), else the simple one.
std::string upper_code_point(int32_t code_point);
std::string lower_code_point(int32_t code_point);
std::string title_code_point(int32_t code_point);

// Begin and end of `text` without leading and trailing whitespace.
size_t skip_space(std::string_view text, size_t at);
size_t trim_space_end(std::string_view text, size_t begin);

}  // namespace clover
