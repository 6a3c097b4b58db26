// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/tokenizer.h"

#include "tokenizer/utf8.h"

namespace clover {

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool trusted,
                                       const EncodeOptions& options) const {
  const TextSpan span{std::string(text), trusted};
  return encode(std::span(&span, 1), options);
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(tokenizer), skip_special_(skip_special) {}

std::string StreamDecoder::push(TokenId id) {
  const std::string_view bytes = tokenizer_.token_bytes(id);
  if (bytes.empty() || (skip_special_ && tokenizer_.is_control(id))) return {};
  // Only decode() knows what the start of a text loses.
  if (at_start_) {
    pending_ += tokenizer_.decode({&id, 1}, skip_special_);
  } else {
    pending_ += bytes;
  }
  at_start_ = false;

  size_t certain = 0;
  while (certain < pending_.size()) {
    certain += utf8_valid_prefix(std::string_view(pending_).substr(certain));
    if (certain >= pending_.size()) break;
    const Utf8Char next = utf8_at(pending_, certain);
    if (next.status == Utf8Char::Status::kIncomplete) break;
    certain += next.length;
  }
  std::string out = utf8_replace_invalid(std::string_view(pending_).substr(0, certain));
  pending_.erase(0, certain);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out = utf8_replace_invalid(pending_);
  pending_.clear();
  at_start_ = true;
  return out;
}

}  // namespace clover
