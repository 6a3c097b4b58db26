// SPDX-License-Identifier: Apache-2.0
// map, select, reject, selectattr and rejectattr: filters that apply filters and tests.
#include "tokenizer/chat_template/builtins.h"
#include "tokenizer/chat_template/operations.h"

namespace clover {
namespace {

JinjaArgs args_from(const JinjaArgs& args, size_t first) {
  JinjaArgs rest;
  for (size_t i = first; i < args.positional.size(); ++i) {
    rest.positional.push_back(args.positional[i]);
  }
  rest.named = args.named;
  return rest;
}

// As in Jinja, these filters take whatever is false for an empty list.
std::vector<JinjaValue> items_if_true(JinjaContext& context, const JinjaValue& value) {
  return is_true(value) ? items_of(context, value) : std::vector<JinjaValue>();
}

JinjaValue map(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  std::vector<JinjaValue> result;
  if (args.positional.empty()) {
    args.at_most(context, 2);
    const JinjaValue& attribute = args.need(context, SIZE_MAX, "attribute");
    const JinjaValue* otherwise = args.find(SIZE_MAX, "default");
    for (const JinjaValue& item : items_if_true(context, value)) {
      JinjaValue found = get_path(context, item, attribute);
      if (otherwise != nullptr && found.is_undefined()) found = *otherwise;
      result.push_back(std::move(found));
    }
  } else {
    const std::string name = args.get_text(context, 0, "filter", "").bytes();
    const JinjaFilter* filter = find_jinja_filter(name);
    if (filter == nullptr) context.fail_here("the filter '{}' is not supported", name);
    const JinjaArgs rest = args_from(args, 1);
    const JinjaContext::Deeper deeper(context);
    for (const JinjaValue& item : items_if_true(context, value)) {
      result.push_back(filter->run(context, item, rest));
    }
  }
  return context.list(std::move(result), JinjaType::kIterator);
}

// The items whose truth, test or attribute's test is `wanted`.
JinjaValue choose(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args,
                  bool by_attribute, bool wanted) {
  const size_t at = by_attribute ? 1 : 0;
  const JinjaTest* test = nullptr;
  JinjaArgs rest;
  if (by_attribute) args.need(context, 0, "attribute");
  if (args.positional.size() > at) {
    const std::string name = args.get_text(context, at, "test", "").bytes();
    test = find_jinja_test(name);
    if (test == nullptr) context.fail_here("the test '{}' is not supported", name);
    rest = args_from(args, at + 1);
  }
  std::vector<JinjaValue> result;
  for (JinjaValue& item : items_if_true(context, value)) {
    const JinjaValue subject = by_attribute ? get_path(context, item, args.positional[0]) : item;
    const bool holds = test != nullptr ? test->run(context, subject, rest) : is_true(subject);
    context.charge(1);
    if (holds == wanted) result.push_back(std::move(item));
  }
  return context.list(std::move(result), JinjaType::kIterator);
}

template <bool kByAttribute, bool kWanted>
JinjaValue choose_filter(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  return choose(context, value, args, kByAttribute, kWanted);
}

constexpr JinjaFilter kFilters[] = {
    {"map", map},
    {"select", choose_filter<false, true>},
    {"reject", choose_filter<false, false>},
    {"selectattr", choose_filter<true, true>},
    {"rejectattr", choose_filter<true, false>},
};

}  // namespace

const JinjaFilter* find_selection_filter(std::string_view name) {
  return find_entry(kFilters, name);
}

}  // namespace clover
