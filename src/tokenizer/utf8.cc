// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/utf8.h"

#include <utf8proc.h>

#include <cstdint>
#include <cstring>

namespace clover {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Shape of the sequence that a lead byte announces; length 0 for bytes that can't lead.
struct Lead {
  size_t length = 0;
  uint8_t second_min = 0x80;  // the second byte's range excludes overlong forms and surrogates
  uint8_t second_max = 0xBF;
};

Lead lead_of(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

}  // namespace

Utf8Char utf8_at(std::string_view text, size_t pos) {
  const auto byte = static_cast<uint8_t>(text[pos]);
  if (byte < 0x80) return {byte, 1, Utf8Char::Status::kValid};
  const Lead lead = lead_of(byte);
  if (lead.length == 0) return {0xFFFD, 1, Utf8Char::Status::kInvalid};
  char32_t code = byte & (0x7F >> lead.length);
  for (size_t i = 1; i < lead.length; ++i) {
    if (pos + i >= text.size()) return {0xFFFD, i, Utf8Char::Status::kIncomplete};
    const auto next = static_cast<uint8_t>(text[pos + i]);
    const uint8_t low = i == 1 ? lead.second_min : 0x80;
    const uint8_t high = i == 1 ? lead.second_max : 0xBF;
    if (next < low || next > high) return {0xFFFD, i, Utf8Char::Status::kInvalid};
    code = (code << 6) | (next & 0x3F);
  }
  return {code, lead.length, Utf8Char::Status::kValid};
}

size_t utf8_previous(std::string_view text, size_t pos) {
  const size_t least = pos < 4 ? 0 : pos - 4;
  --pos;
  while (pos > least && (static_cast<uint8_t>(text[pos]) & 0xC0) == 0x80) --pos;
  return pos;
}

size_t utf8_valid_prefix(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    // Eight ASCII bytes at a time: most text is, and validation precedes every encoding.
    while (pos + 8 <= text.size()) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + pos, 8);
      if ((word & 0x8080808080808080ULL) != 0) break;
      pos += 8;
    }
    if (pos >= text.size()) break;
    const Utf8Char c = utf8_at(text, pos);
    if (c.status != Utf8Char::Status::kValid) break;
    pos += c.length;
  }
  return pos;
}

size_t utf8_invalid_prefix(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    const Utf8Char c = utf8_at(text, pos);
    if (c.status == Utf8Char::Status::kValid) break;
    pos += c.length;
  }
  return pos;
}

void append_utf8(std::string& out, char32_t code) {
  const auto c = static_cast<uint32_t>(code);
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string utf8_replace_invalid(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  size_t pos = 0;
  while (pos < text.size()) {
    const size_t valid = utf8_valid_prefix(text.substr(pos));
    out.append(text.substr(pos, valid));
    pos += valid;
    if (pos >= text.size()) break;
    out.append(kReplacement);
    pos += utf8_at(text, pos).length;
  }
  return out;
}

bool is_white_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 0x09 && code <= 0x0D);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_word_char(char32_t code) {
  if (code == 0x200C || code == 0x200D) return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

}  // namespace clover
