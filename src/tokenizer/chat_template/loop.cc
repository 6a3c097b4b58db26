// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/chat_template/loop.h"

namespace clover {

JinjaValue loop_attribute(JinjaContext& context, const JinjaValue& value, const std::string& name) {
  const JinjaLoop& loop = *value.loop;
  const auto index = static_cast<int64_t>(loop.index);
  const auto length = static_cast<int64_t>(loop.items.size());
  if (name == "index") return JinjaValue::of_int(index + 1);
  if (name == "index0") return JinjaValue::of_int(index);
  if (name == "revindex") return JinjaValue::of_int(length - index);
  if (name == "revindex0") return JinjaValue::of_int(length - index - 1);
  if (name == "first") return JinjaValue::of_bool(index == 0);
  if (name == "last") return JinjaValue::of_bool(index + 1 == length);
  if (name == "length") return JinjaValue::of_int(length);
  if (name == "depth") return JinjaValue::of_int(1);  // only recursive loops go deeper
  if (name == "depth0") return JinjaValue::of_int(0);
  if (name == "previtem" && index > 0) return loop.items[loop.index - 1];
  if (name == "nextitem" && index + 1 < length) return loop.items[loop.index + 1];
  if (name == "cycle" || name == "changed") return context.method(value, name);
  return JinjaValue::undefined(name);
}

}  // namespace clover
