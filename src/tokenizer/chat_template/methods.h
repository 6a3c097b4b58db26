// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "tokenizer/chat_template/builtins.h"

namespace clover {

// `self.name(args)`.
struct JinjaMethodEntry {
  std::string_view name;
  JinjaValue (*run)(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args);
};

// Null for unknown names.
const JinjaMethodEntry* find_string_method(std::string_view name);

}  // namespace clover
