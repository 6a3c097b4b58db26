// SPDX-License-Identifier: Apache-2.0
// Filters that give text. As in Jinja, their input is printed first when it is not a string.
#include "tokenizer/chat_template/builtins.h"
#include "tokenizer/chat_template/format.h"
#include "tokenizer/chat_template/operations.h"
#include "tokenizer/chat_template/text_functions.h"

namespace clover {
namespace {

// The input as text, charged.
MarkedText input_text(JinjaContext& context, const JinjaValue& value) {
  MarkedText text = to_text(context, value);
  context.charge_text(text.size());
  return text;
}

JinjaValue trim(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 1);
  const JinjaValue* chars = args.find(0, "chars");
  const bool given = chars != nullptr && !chars->is_none();
  const MarkedText set = given ? args.get_text(context, 0, "chars", "") : MarkedText();
  return context.text(strip_text(input_text(context, value), given ? &set : nullptr, Side::kBoth));
}

template <MarkedText (*kMap)(const MarkedText&)>
JinjaValue map_text(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 0);
  return context.text(kMap(input_text(context, value)));
}

JinjaValue replace(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 3);
  const MarkedText old = to_text(context, args.need(context, 0, "old"));
  const MarkedText with = to_text(context, args.need(context, 1, "new"));
  return context.text(replace_text(context, input_text(context, value), old, with,
                                   args.get_int(context, 2, "count", -1)));
}

JinjaValue string(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 0);
  return context.text(to_text(context, value));
}

JinjaValue safe(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  JinjaValue result = string(context, value, args);
  result.markup = true;
  return result;
}

JinjaValue escape(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 0);
  if (value.markup) return value;
  JinjaValue result = context.text(escape_html(input_text(context, value)));
  result.markup = true;
  return result;
}

JinjaValue join(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 2);
  const MarkedText separator =
      to_text(context, args.get(0, "d", JinjaValue::of_text(std::string(), true)));
  const JinjaValue* attribute = args.find(1, "attribute");
  MarkedText result;
  bool first = true;
  for (const JinjaValue& item : items_of(context, value)) {
    if (!std::exchange(first, false)) result.append(separator);
    const bool whole = attribute == nullptr || attribute->is_none();
    result.append(to_text(context, whole ? item : get_path(context, item, *attribute)));
    context.charge(1);
    if (result.size() > static_cast<size_t>(context.limits().max_bytes)) {
      context.charge_text(result.size());
    }
  }
  return context.text(std::move(result));
}

JinjaValue format(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  if (!args.named.empty()) context.fail_here("format with named arguments is not supported");
  return context.text(printf_format(context, input_text(context, value), args.positional));
}

JinjaValue indent(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 3);
  const JinjaValue width = args.get(0, "width", JinjaValue::of_int(4));
  MarkedText prefix;
  if (width.is_string()) {
    prefix = *width.text;
  } else {
    const int64_t spaces = args.get_int(context, 0, "width", 4);
    if (spaces > 1000) context.fail_here("an indentation of {} is too wide", spaces);
    prefix.append(std::string(static_cast<size_t>(std::max<int64_t>(spaces, 0)), ' '), true);
  }
  const MarkedText text = input_text(context, value);
  const auto lines =
      static_cast<size_t>(1 + std::count(text.bytes().begin(), text.bytes().end(), '\n'));
  context.charge_text(text.size() + lines * prefix.size());
  return context.text(indent_text(text, prefix, args.get_bool(1, "first", false),
                                  args.get_bool(2, "blank", false)));
}

JinjaValue tojson(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 5);
  JinjaJsonStyle style;
  style.ensure_ascii = args.get_bool(0, "ensure_ascii", false);
  style.sort_keys = args.get_bool(3, "sort_keys", false);
  const JinjaValue indent = args.get(1, "indent", JinjaValue::none());
  style.pretty = !indent.is_none();
  if (indent.is_string()) {
    style.indent = indent.bytes();
  } else if (style.pretty) {
    const int64_t spaces = args.get_int(context, 1, "indent", 0);
    if (spaces > 100) context.fail_here("an indentation of {} is too wide", spaces);
    style.indent.assign(static_cast<size_t>(std::max<int64_t>(spaces, 0)), ' ');
  }
  if (style.pretty) style.item_separator = ",";
  const JinjaValue separators = args.get(2, "separators", JinjaValue::none());
  if (!separators.is_none()) {
    const std::vector<JinjaValue> pair = items_of(context, separators);
    if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      context.fail_here("the separators of tojson must be two strings");
    }
    style.item_separator = pair[0].bytes();
    style.key_separator = pair[1].bytes();
  }
  return context.text(to_json_text(context, value, style));
}

// Not in Jinja, but templates written for llama.cpp parse a tool call's arguments with it.
JinjaValue from_json(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 0);
  if (!value.is_string()) context.fail_here("'from_json' needs a string");
  context.charge_text(value.text->size());
  return to_jinja_value(context, parse_json(value.bytes(), "the text given to from_json"),
                        value.text->all_trusted());
}

constexpr JinjaFilter kFilters[] = {
    {"trim", trim},
    {"upper", map_text<upper_text>},
    {"lower", map_text<lower_text>},
    {"capitalize", map_text<capitalize_text>},
    {"title", map_text<title_words>},
    {"escape", escape},
    {"e", escape},
    {"safe", safe},
    {"string", string},
    {"replace", replace},
    {"join", join},
    {"format", format},
    {"indent", indent},
    {"tojson", tojson},
    {"from_json", from_json},
};

}  // namespace

const JinjaFilter* find_text_filter(std::string_view name) { return find_entry(kFilters, name); }

}  // namespace clover
