// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/chat_template/unicode.h"

#include <utf8proc.h>

namespace clover {
namespace {

utf8proc_category_t category(int32_t code_point) {
  return code_point < 0 ? UTF8PROC_CATEGORY_CN : utf8proc_category(code_point);
}

}  // namespace

CodePoint code_point_at(std::string_view text, size_t at) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at;
  if (*bytes < 0x80) return {*bytes, 1};
  utf8proc_int32_t value = -1;
  const auto length =
      utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - at), &value);
  if (length <= 0) return {-1, 1};
  return {value, static_cast<size_t>(length)};
}

void append_utf8(std::string& out, int32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(code_point, bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

size_t count_code_points(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) at += code_point_at(text, at).length;
  return count;
}

size_t byte_of_code_point(std::string_view text, size_t index) {
  size_t at = 0;
  while (at < text.size() && index-- > 0) at += code_point_at(text, at).length;
  return at;
}

bool is_python_space(int32_t c) {
  if (c < 0) return false;
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_python_printable(int32_t code_point) {
  if (code_point == ' ') return true;
  switch (category(code_point)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_letter(int32_t code_point) {
  const auto kind = category(code_point);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_word(int32_t code_point) {
  const auto kind = category(code_point);
  return code_point == '_' || is_letter(code_point) ||
         (kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO);
}

std::string upper_code_point(int32_t code_point) {
  if (code_point == 0xdf) return "SS";
  std::string result;
  append_utf8(result, utf8proc_toupper(code_point));
  return result;
}

std::string lower_code_point(int32_t code_point) {
  if (code_point == 0x130) return "i\xcc\x87";
  std::string result;
  append_utf8(result, utf8proc_tolower(code_point));
  return result;
}

std::string title_code_point(int32_t code_point) {
  if (code_point == 0xdf) return "Ss";
  std::string result;
  append_utf8(result, utf8proc_totitle(code_point));
  return result;
}

size_t skip_space(std::string_view text, size_t at) {
  while (at < text.size()) {
    const CodePoint c = code_point_at(text, at);
    if (!is_python_space(c.value)) break;
    at += c.length;
  }
  return at;
}

size_t trim_space_end(std::string_view text, size_t begin) {
  size_t end = begin;
  for (size_t at = begin; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    at += c.length;
    if (!is_python_space(c.value)) end = at;
  }
  return end;
}

}  // namespace clover
