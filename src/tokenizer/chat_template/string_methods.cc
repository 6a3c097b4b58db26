// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tokenizer/chat_template/format.h"
#include "tokenizer/chat_template/methods.h"
#include "tokenizer/chat_template/operations.h"
#include "tokenizer/chat_template/text_functions.h"
#include "tokenizer/chat_template/unicode.h"

namespace clover {
namespace {

template <MarkedText (*kMap)(const MarkedText&)>
JinjaValue map_text(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 0);
  return context.text(kMap(*self.text));
}

template <Side kSide>
JinjaValue strip(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 1);
  const bool given = !args.positional.empty() && !args.positional[0].is_none();
  const MarkedText chars = given ? args.get_text(context, 0, "chars", "") : MarkedText();
  context.charge_text(self.text->size());
  return context.text(strip_text(*self.text, given ? &chars : nullptr, kSide));
}

JinjaValue text_list(JinjaContext& context, std::vector<MarkedText> parts) {
  std::vector<JinjaValue> items;
  items.reserve(parts.size());
  for (MarkedText& part : parts) items.push_back(context.text(std::move(part)));
  return context.list(std::move(items));
}

template <bool kFromEnd>
JinjaValue split(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 2);
  const JinjaValue separator = args.get(0, "sep", JinjaValue::none());
  const int64_t most = args.get_int(context, 1, "maxsplit", -1);
  context.charge_text(self.text->size());
  if (separator.is_none()) {
    if (kFromEnd && most >= 0) context.fail_here("rsplit with a limit needs a separator");
    return text_list(context, split_text(*self.text, nullptr, most, false));
  }
  const MarkedText text = args.get_text(context, 0, "sep", "");
  if (text.empty()) context.fail_here("split needs a separator that is not empty");
  return text_list(context, split_text(*self.text, &text, most, kFromEnd));
}

JinjaValue splitlines(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 1);
  context.charge_text(self.text->size());
  return text_list(context, split_lines(*self.text, args.get_bool(0, "keepends", false)));
}

bool has_affix(JinjaContext& context, const JinjaValue& self, const JinjaValue& affix, bool front) {
  if (affix.is(JinjaType::kTuple)) {
    for (const JinjaValue& one : affix.list->items) {
      if (has_affix(context, self, one, front)) return true;
    }
    return false;
  }
  if (!affix.is_string()) context.fail_here("needs a string, not {}", affix.type_name());
  context.charge_text(affix.text->size());
  return front ? self.bytes().starts_with(affix.bytes()) : self.bytes().ends_with(affix.bytes());
}

template <bool kFront>
JinjaValue affix_test(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 1);
  const JinjaContext::Deeper deeper(context);
  return JinjaValue::of_bool(has_affix(context, self, args.need(context, 0, "prefix"), kFront));
}

template <bool kFront>
JinjaValue remove_affix(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 1);
  args.need(context, 0, "affix");
  const size_t length = args.get_text(context, 0, "affix", "").size();
  if (!has_affix(context, self, args.positional[0], kFront)) return self;
  const MarkedText& text = *self.text;
  return context.text(kFront ? text.slice(length, text.size())
                             : text.slice(0, text.size() - length));
}

JinjaValue replace(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 3);
  args.need(context, 1, "new");
  context.charge_text(self.text->size());
  return context.text(replace_text(context, *self.text, args.get_text(context, 0, "old", ""),
                                   args.get_text(context, 1, "new", ""),
                                   args.get_int(context, 2, "count", -1)));
}

template <bool kFirst, bool kMust>
JinjaValue find(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 1);
  args.need(context, 0, "sub");
  const std::string wanted = args.get_text(context, 0, "sub", "").bytes();
  context.charge_text(self.text->size());
  const size_t at = kFirst ? self.bytes().find(wanted) : self.bytes().rfind(wanted);
  if (at == std::string::npos) {
    if (kMust) context.fail_here("the substring was not found");
    return JinjaValue::of_int(-1);
  }
  return JinjaValue::of_int(
      static_cast<int64_t>(count_code_points(std::string_view(self.bytes()).substr(0, at))));
}

JinjaValue count(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 1);
  args.need(context, 0, "sub");
  const MarkedText wanted = args.get_text(context, 0, "sub", "");
  context.charge_text(self.text->size());
  if (wanted.empty()) return JinjaValue::of_int(length_of(context, self) + 1);
  int64_t found = 0;
  for (size_t at = self.bytes().find(wanted.bytes()); at != std::string::npos; ++found) {
    at = self.bytes().find(wanted.bytes(), at + wanted.size());
  }
  return JinjaValue::of_int(found);
}

JinjaValue join(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 1);
  MarkedText result;
  bool first = true;
  for (const JinjaValue& item : items_of(context, args.need(context, 0, "iterable"))) {
    if (!item.is_string()) context.fail_here("join needs strings, found {}", item.type_name());
    if (!std::exchange(first, false)) result.append(*self.text);
    result.append(*item.text);
    context.charge_text(item.text->size());
    if (result.size() > static_cast<size_t>(context.limits().max_bytes)) {
      context.charge_text(result.size());
    }
  }
  return context.text(std::move(result));
}

JinjaValue format(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  return context.text(brace_format(context, *self.text, args));
}

template <bool (*kHolds)(int32_t)>
JinjaValue all_are(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 0);
  context.charge_text(self.text->size());
  for (size_t at = 0; at < self.text->size();) {
    const CodePoint c = code_point_at(self.bytes(), at);
    if (!kHolds(c.value)) return JinjaValue::of_bool(false);
    at += c.length;
  }
  return JinjaValue::of_bool(!self.text->empty());
}

bool is_decimal(int32_t c) { return is_word(c) && !is_letter(c) && c != '_'; }
bool is_alphanumeric(int32_t c) { return is_word(c) && c != '_'; }

template <bool kUpper>
JinjaValue is_case(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 0);
  return JinjaValue::of_bool(find_jinja_test(kUpper ? "upper" : "lower")->run(context, self, args));
}

constexpr JinjaMethodEntry kMethods[] = {
    {"upper", map_text<upper_text>},
    {"lower", map_text<lower_text>},
    {"capitalize", map_text<capitalize_text>},
    {"title", map_text<title_text>},
    {"strip", strip<Side::kBoth>},
    {"lstrip", strip<Side::kLeft>},
    {"rstrip", strip<Side::kRight>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines", splitlines},
    {"startswith", affix_test<true>},
    {"endswith", affix_test<false>},
    {"removeprefix", remove_affix<true>},
    {"removesuffix", remove_affix<false>},
    {"replace", replace},
    {"find", find<true, false>},
    {"rfind", find<false, false>},
    {"index", find<true, true>},
    {"count", count},
    {"join", join},
    {"format", format},
    {"isdigit", all_are<is_decimal>},
    {"isnumeric", all_are<is_decimal>},
    {"isalpha", all_are<is_letter>},
    {"isalnum", all_are<is_alphanumeric>},
    {"isspace", all_are<is_python_space>},
    {"isupper", is_case<true>},
    {"islower", is_case<false>},
};

}  // namespace

const JinjaMethodEntry* find_string_method(std::string_view name) {
  return find_entry(kMethods, name);
}

}  // namespace clover
