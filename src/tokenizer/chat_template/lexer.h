// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace clover {

enum class JinjaTokenType {
  kData,           // template text after whitespace control
  kVariableBegin,  // {{
  kVariableEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,   // value: the decoded text
  kInteger,  // value: digits as written, without underscores
  kFloat,
  kOperator,
  kEnd,
};

struct JinjaToken {
  JinjaTokenType type;
  std::string value;
  int line;
};

// Cuts a template into tokens, ending with kEnd. Applies "-" and "+" whitespace control,
// trim_blocks and lstrip_blocks (always on, as in transformers), drops comments and one newline at
// the end. Errors: kCorrupt with the line.
std::vector<JinjaToken> jinja_tokenize(std::string_view source);

}  // namespace clover
