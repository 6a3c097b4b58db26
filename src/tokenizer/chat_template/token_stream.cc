// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/chat_template/token_stream.h"

#include "base/error.h"

namespace clover {

JinjaToken JinjaTokens::take() {
  JinjaToken token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool JinjaTokens::at_operator(std::string_view text) const {
  return at(JinjaTokenType::kOperator) && current().value == text;
}

bool JinjaTokens::at_name(std::string_view text) const {
  return at(JinjaTokenType::kName) && current().value == text;
}

bool JinjaTokens::skip_operator(std::string_view text) {
  const bool found = at_operator(text);
  if (found) take();
  return found;
}

bool JinjaTokens::skip_name(std::string_view text) {
  const bool found = at_name(text);
  if (found) take();
  return found;
}

JinjaToken JinjaTokens::expect(JinjaTokenType type, std::string_view what) {
  if (!at(type)) corrupt(fmt::format("expected {}, found {}", what, describe()));
  return take();
}

void JinjaTokens::expect_operator(std::string_view text) {
  if (!skip_operator(text)) corrupt(fmt::format("expected '{}', found {}", text, describe()));
}

void JinjaTokens::corrupt(const std::string& what) const {
  fail(ErrorCode::kCorrupt, "chat template line {}: {}", line(), what);
}

void JinjaTokens::unsupported(const std::string& what) const {
  fail(ErrorCode::kUnsupported, "chat template line {}: {}", line(), what);
}

std::string JinjaTokens::describe() const {
  switch (current().type) {
    case JinjaTokenType::kEnd:
      return "the end of the template";
    case JinjaTokenType::kData:
      return "text";
    case JinjaTokenType::kVariableBegin:
      return "'{{'";
    case JinjaTokenType::kVariableEnd:
      return "'}}'";
    case JinjaTokenType::kBlockBegin:
      return "'{%'";
    case JinjaTokenType::kBlockEnd:
      return "'%}'";
    case JinjaTokenType::kString:
      return "a string";
    default:
      return fmt::format("'{}'", current().value);
  }
}

}  // namespace clover
