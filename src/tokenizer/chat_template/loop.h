// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tokenizer/chat_template/context.h"

namespace clover {

// The state behind the `loop` variable of one for statement.
struct JinjaLoop {
  std::vector<JinjaValue> items;
  size_t index = 0;  // of the current item
  // What loop.changed() saw last, if it was called.
  mutable std::vector<JinjaValue> changed;
  mutable bool changed_called = false;
};

// loop.name for index, first, previtem, …
JinjaValue loop_attribute(JinjaContext& context, const JinjaValue& loop, const std::string& name);

}  // namespace clover
