// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "tokenizer/chat_template/ast.h"

namespace clover {

// Parses a whole template. Errors as ChatTemplate::parse.
std::unique_ptr<JinjaTemplate> parse_jinja(std::string_view source);

}  // namespace clover
