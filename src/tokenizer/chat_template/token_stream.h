// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/chat_template/lexer.h"

namespace clover {

// A position in a template's tokens.
class JinjaTokens {
 public:
  explicit JinjaTokens(std::vector<JinjaToken> tokens) : tokens_(std::move(tokens)) {}

  const JinjaToken& current() const { return tokens_[at_]; }
  const JinjaToken& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  JinjaToken take();
  bool at(JinjaTokenType type) const { return current().type == type; }
  bool at_operator(std::string_view text) const;
  bool at_name(std::string_view text) const;
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  JinjaToken expect(JinjaTokenType type, std::string_view what);
  void expect_operator(std::string_view text);
  int line() const { return current().line; }

  // Error with the line of the current token.
  [[noreturn]] void corrupt(const std::string& what) const;
  [[noreturn]] void unsupported(const std::string& what) const;
  // What the current token looks like, for messages.
  std::string describe() const;

 private:
  std::vector<JinjaToken> tokens_;
  size_t at_ = 0;
};

}  // namespace clover
