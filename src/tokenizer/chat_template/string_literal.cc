// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/chat_template/string_literal.h"

#include "base/error.h"
#include "tokenizer/chat_template/unicode.h"

namespace clover {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The single-character escapes; 0 for others.
char simple_escape(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return c;
    default:
      return '\0';
  }
}

// Reads `digits` hexadecimal digits at `at` and moves it behind them.
int32_t read_hex(std::string_view text, size_t& at, int digits, int line) {
  int64_t value = 0;
  for (int i = 0; i < digits; ++i, ++at) {
    const int digit = at < text.size() ? hex_value(text[at]) : -1;
    if (digit < 0)
      fail(ErrorCode::kCorrupt, "chat template line {}: broken escape in a string", line);
    value = value * 16 + digit;
  }
  if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
    fail(ErrorCode::kCorrupt, "chat template line {}: escape \\U{:x} is not a character", line,
         value);
  }
  return static_cast<int32_t>(value);
}

int32_t read_octal(std::string_view text, size_t& at) {
  int32_t value = 0;
  for (int i = 0; i < 3 && at < text.size() && text[at] >= '0' && text[at] <= '7'; ++i, ++at) {
    value = value * 8 + (text[at] - '0');
  }
  return value;
}

}  // namespace

std::string decode_string_literal(std::string_view inside, int line) {
  std::string result;
  for (size_t at = 0; at < inside.size();) {
    if (inside[at] != '\\' || at + 1 >= inside.size()) {
      result += inside[at++];
      continue;
    }
    const char c = inside[at + 1];
    at += 2;
    if (const char simple = simple_escape(c); simple != '\0') {
      result += simple;
    } else if (c == '\n') {
      continue;  // an escaped line end stands for nothing
    } else if (c == 'x' || c == 'u' || c == 'U') {
      append_utf8(result, read_hex(inside, at, c == 'x' ? 2 : c == 'u' ? 4 : 8, line));
    } else if (c >= '0' && c <= '7') {
      append_utf8(result, read_octal(inside, --at));
    } else {
      result += '\\';
      result += c;
    }
  }
  return result;
}

}  // namespace clover
