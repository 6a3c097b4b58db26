// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tokenizer/chat_template/context.h"

namespace clover {

// What Python's str() gives, as `{{ value }}` prints it; undefined prints nothing.
MarkedText to_text(JinjaContext& context, const JinjaValue& value);
// What Python's repr() gives.
MarkedText to_repr(JinjaContext& context, const JinjaValue& value);
// What Python's repr() gives for a float: the shortest digits that read back the same.
std::string float_repr(double value);

struct JinjaJsonStyle {
  bool ensure_ascii = false;
  bool pretty = false;  // one item a line, `indent` before each level
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
// What Python's json.dumps gives. Errors: kInvalidArgument for values that JSON lacks.
MarkedText to_json_text(JinjaContext& context, const JinjaValue& value,
                        const JinjaJsonStyle& style);

// `format % args` of Python for %s %r %d %i %f %x %%, with flags, width and precision.
MarkedText printf_format(JinjaContext& context, const MarkedText& format,
                         const std::vector<JinjaValue>& args);

}  // namespace clover
