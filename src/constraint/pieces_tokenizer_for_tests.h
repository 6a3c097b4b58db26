// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tokenizer/tokenizer.h"

namespace clover {

// A tokenizer for tests whose tokens are given; the ids of `ends` end a text and are control
// tokens. Only decodes.
class PiecesTokenizer : public Tokenizer {
 public:
  PiecesTokenizer(std::vector<std::string> pieces, std::vector<TokenId> ends)
      : pieces_(std::move(pieces)), ends_(std::move(ends)) {}

  std::vector<TokenId> encode(std::span<const TextSpan>, const EncodeOptions&) const override {
    fail(ErrorCode::kUnsupported, "this tokenizer only decodes");
  }
  std::string_view token_bytes(TokenId id) const override {
    return pieces_.at(static_cast<size_t>(id));
  }
  std::string decode(std::span<const TokenId> ids, bool) const override {
    std::string text;
    for (const TokenId id : ids)
      if (!is_control(id)) text += token_bytes(id);
    return text;
  }
  int32_t vocab_size() const override { return static_cast<int32_t>(pieces_.size()); }
  bool is_control(TokenId id) const override { return std::ranges::find(ends_, id) != ends_.end(); }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  const std::vector<TokenId>& eos_ids() const override { return ends_; }
  std::optional<TokenId> find(std::string_view) const override { return std::nullopt; }
  std::string_view kind() const override { return "pieces"; }
  std::optional<std::string> chat_template() const override { return std::nullopt; }

  // Every byte, the ends behind them, and then pieces as JSON is cut into by vocabularies.
  static PiecesTokenizer json_like() {
    std::vector<std::string> pieces;
    for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
    pieces.emplace_back("</s>");
    pieces.emplace_back("<|end|>");
    for (const char* piece : {"{\"",
                              "\":",
                              "\",",
                              "\",\"",
                              "\": \"",
                              " \"",
                              "},",
                              "}}",
                              "]}",
                              "\"]",
                              "\"}",
                              "\"},{\"",
                              "[\"",
                              "true",
                              "false",
                              "null",
                              ":true",
                              "12",
                              "123",
                              "-1",
                              "0.5",
                              "1e5",
                              "name",
                              " name",
                              "age",
                              "\"age\":",
                              "tags",
                              "\n",
                              "\n  ",
                              "\n    ",
                              "\n        ",
                              " {",
                              " [",
                              "  ",
                              "\\n",
                              "\\\"",
                              "\\u00",
                              "\xc3\xa9",
                              "\xe2\x82",
                              "\xac",
                              "\xf0\x9f\x98\x80",
                              "\xf0\x9f",
                              "hello",
                              " world",
                              "abcdefghij",
                              "a\"b",
                              "<|end|",
                              "[]",
                              "{}",
                              ",",
                              "1,",
                              "2]",
                              "é\": 1",
                              "\":\""})
      pieces.emplace_back(piece);
    return {std::move(pieces), {256, 257}};
  }

 private:
  std::vector<std::string> pieces_;
  std::vector<TokenId> ends_;
};

}  // namespace clover
