// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/vocabulary_text.h"

#include "base/error.h"
#include "tokenizer/bpe_model.h"

namespace clover {

std::optional<uint8_t> parse_byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    if (c >= '0' && c <= '9') {
      value = value * 16 + (c - '0');
    } else if (c >= 'A' && c <= 'F') {
      value = value * 16 + (c - 'A' + 10);
    } else {
      return std::nullopt;
    }
  }
  return static_cast<uint8_t>(value);
}

std::string replace_space_markers(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    if (text.substr(pos).starts_with(kSpaceMarker)) {
      out += ' ';
      pos += kSpaceMarker.size();
    } else {
      out += text[pos++];
    }
  }
  return out;
}

std::pair<std::string_view, std::string_view> split_merge(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == line.size() ||
      line.find(' ', space + 1) != std::string_view::npos) {
    fail(ErrorCode::kCorrupt, "tokenizer: the merge \"{}\" is not two texts and one space.", line);
  }
  return {line.substr(0, space), line.substr(space + 1)};
}

}  // namespace clover
