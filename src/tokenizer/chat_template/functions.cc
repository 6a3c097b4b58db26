// SPDX-License-Identifier: Apache-2.0
// The global functions.
#include "tokenizer/chat_template/builtins.h"
#include "tokenizer/chat_template/format.h"
#include "tokenizer/chat_template/operations.h"

namespace clover {
namespace {

// As in Jinja's sandbox.
constexpr int64_t kMaxRange = 100'000;

JinjaValue raise_exception(JinjaContext& context, const JinjaArgs& args) {
  args.at_most(context, 1);
  const MarkedText message = to_text(context, args.need(context, 0, "message"));
  throw Error(ErrorCode::kInvalidArgument, message.bytes());
}

JinjaValue strftime_now(JinjaContext& context, const JinjaArgs& args) {
  args.at_most(context, 1);
  args.need(context, 0, "format");
  const MarkedText format = args.get_text(context, 0, "format", "");
  context.charge_text(format.size());
  return context.text(format_time(context, format.bytes(), context.now()), format.all_trusted());
}

// How many numbers a range holds.
int64_t range_count(JinjaContext& context, int64_t start, int64_t stop, int64_t step) {
  if (step == 0) context.fail_here("range cannot step by zero");
  __extension__ using Wide = __int128;
  const Wide distance = step > 0 ? Wide{stop} - start : Wide{start} - stop;
  const Wide stride = step > 0 ? Wide{step} : -Wide{step};
  const Wide count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  if (count > kMaxRange) {
    fail(ErrorCode::kExhausted, "chat template line {}: a range holds more than {} numbers",
         context.line(), kMaxRange);
  }
  return static_cast<int64_t>(count);
}

JinjaValue range(JinjaContext& context, const JinjaArgs& args) {
  args.at_most(context, 3);
  const JinjaValue& first = args.need(context, 0, "start");
  const bool only_stop = args.positional.size() == 1;
  const int64_t start = only_stop ? 0 : args.get_int(context, 0, "start", 0);
  const int64_t stop = args.get_int(context, only_stop ? 0 : 1, "stop", 0);
  const int64_t step = args.get_int(context, 2, "step", 1);
  bool trusted = first.trusted;
  for (const JinjaValue& value : args.positional) trusted = trusted && value.trusted;
  std::vector<JinjaValue> items;
  const int64_t count = range_count(context, start, stop, step);
  for (int64_t i = 0; i < count; ++i)
    items.push_back(JinjaValue::of_int(start + i * step, trusted));
  return context.list(std::move(items));
}

// The contents of dict(…) and namespace(…).
JinjaValue collect(JinjaContext& context, const JinjaArgs& args, JinjaType type) {
  JinjaValue result = context.dict(type);
  if (args.positional.size() > 1) context.fail_here("takes at most one positional argument");
  if (!args.positional.empty() && args.positional[0].is_dict()) {
    for (const auto& [key, value] : args.positional[0].dict->items) {
      context.set_item(*result.dict, key, value);
    }
  } else if (!args.positional.empty()) {
    for (const JinjaValue& pair : items_of(context, args.positional[0])) {
      const std::vector<JinjaValue> parts = items_of(context, pair);
      if (parts.size() != 2) context.fail_here("expected pairs of key and value");
      context.set_item(*result.dict, parts[0], parts[1]);
    }
  }
  for (const auto& [name, value] : args.named) {
    context.set_item(*result.dict, JinjaValue::of_text(name, true), value);
  }
  return result;
}

JinjaValue make_dict(JinjaContext& context, const JinjaArgs& args) {
  return collect(context, args, JinjaType::kDict);
}

JinjaValue make_namespace(JinjaContext& context, const JinjaArgs& args) {
  return collect(context, args, JinjaType::kNamespace);
}

constexpr JinjaFunction kFunctions[] = {
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
    {"range", range},
    {"dict", make_dict},
    {"namespace", make_namespace},
};

}  // namespace

const JinjaFunction* find_jinja_function(std::string_view name) {
  return find_entry(kFunctions, name);
}

}  // namespace clover
