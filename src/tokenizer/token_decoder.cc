// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/token_decoder.h"

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/vocabulary_text.h"

namespace clover {
namespace {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  if (from.empty()) return std::string(text);
  std::string out;
  size_t done = 0;
  for (size_t pos = text.find(from); pos != std::string_view::npos; pos = text.find(from, done)) {
    out.append(text.substr(done, pos - done)).append(to);
    done = pos + from.size();
  }
  return out.append(text.substr(done));
}

}  // namespace

void TokenDecoder::read_strip(const Json& node) {
  const auto count = [&](std::string_view key) -> int64_t {
    const Json* value = json_member(node, key);
    if (value == nullptr) return 0;
    if (!value->is_number_integer()) {
      fail(ErrorCode::kCorrupt, "tokenizer: \"{}\" is not a whole number.", key);
    }
    return value->get<int64_t>();
  };
  const int64_t start = count("start");
  const int64_t stop = count("stop");
  if (start == 0 && stop == 0) return;
  if (!fused_ || start != 1 || stop != 0 || json_string(node, "content") != " ") {
    fail(ErrorCode::kUnsupported,
         "tokenizer.json: the decoder \"Strip\" is only supported for one space at the start of "
         "the fused text.");
  }
  strip_first_space_ = true;
}

void TokenDecoder::read(const Json& node) {
  const std::string type = json_string(node, "type");
  if (type == "Sequence") {
    for (const Json& child : json_array(node, "decoders")) read(child);
  } else if (type == "ByteLevel") {
    byte_level_ = true;
  } else if (type == "ByteFallback") {
    byte_fallback_ = true;
  } else if (type == "Fuse") {
    fused_ = true;
  } else if (type == "Strip") {
    read_strip(node);
  } else if (type == "Metaspace") {
    replacements_.emplace_back(json_string(node, "replacement"), " ");
    const bool never = json_member(node, "prepend_scheme") != nullptr
                           ? json_string(node, "prepend_scheme") == "never"
                           : !json_bool(node, "add_prefix_space", true);
    strip_first_space_ = !never;
  } else if (type == "Replace") {
    const Json* pattern = json_member(node, "pattern");
    if (pattern == nullptr || json_member(*pattern, "String") == nullptr) {
      fail(ErrorCode::kUnsupported,
           "tokenizer.json: the decoder \"Replace\" is only supported with a string pattern.");
    }
    replacements_.emplace_back(json_string(*pattern, "String"), json_string(node, "content"));
  } else {
    fail(ErrorCode::kUnsupported, "tokenizer.json: the decoder \"{}\" is not supported.", type);
  }
}

TokenDecoder TokenDecoder::from_json(const Json* node, bool byte_level) {
  TokenDecoder decoder;
  if (node == nullptr) {
    decoder.byte_level_ = byte_level;
  } else {
    decoder.read(*node);
  }
  return decoder;
}

std::string TokenDecoder::bytes_of(const std::string& token) const {
  if (byte_fallback_) {
    if (const auto byte = parse_byte_token(token)) return std::string(1, static_cast<char>(*byte));
  }
  if (byte_level_) return letters_to_bytes(token).value_or(token);
  std::string bytes = token;
  for (const auto& [from, to] : replacements_) {
    bytes = replace_all(bytes, from, to);
    check_growth(token.size(), bytes.size());
  }
  return bytes;
}

}  // namespace clover
