// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace clover {

// tokenizer.json's "decoder", reduced to what it does to one token at a time: all supported
// decoders are, but for the space they drop at the start of a text.
class TokenDecoder {
 public:
  // `byte_level`: the vocabulary is spelled in the byte alphabet, for documents without a decoder.
  // Error(kUnsupported) with the decoder's type.
  static TokenDecoder from_json(const Json* node, bool byte_level);

  std::string bytes_of(const std::string& token) const;
  bool strip_first_space() const { return strip_first_space_; }

 private:
  void read(const Json& node);
  void read_strip(const Json& node);

  std::vector<std::pair<std::string, std::string>> replacements_;
  bool byte_level_ = false;
  bool byte_fallback_ = false;
  bool fused_ = false;
  bool strip_first_space_ = false;
};

}  // namespace clover
