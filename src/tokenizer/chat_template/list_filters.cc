// SPDX-License-Identifier: Apache-2.0
// Filters over lists and dicts as a whole.
#include <algorithm>

#include "tokenizer/chat_template/builtins.h"
#include "tokenizer/chat_template/operations.h"
#include "tokenizer/chat_template/text_functions.h"

namespace clover {
namespace {

JinjaValue length(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 0);
  return JinjaValue::of_int(length_of(context, value));
}

JinjaValue default_value(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 2);
  const bool falsy_too = args.get_bool(1, "boolean", false);
  if (!value.is_undefined() && !(falsy_too && !is_true(value))) return value;
  return args.get(0, "default_value", JinjaValue::of_text(std::string(), true));
}

JinjaValue first(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 0);
  const std::vector<JinjaValue> items = items_of(context, value);
  return items.empty() ? JinjaValue::undefined("the first of nothing") : items.front();
}

JinjaValue last(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 0);
  const std::vector<JinjaValue> items = items_of(context, value);
  return items.empty() ? JinjaValue::undefined("the last of nothing") : items.back();
}

JinjaValue list(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 0);
  return context.list(items_of(context, value));
}

JinjaValue reverse(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 0);
  std::vector<JinjaValue> items = items_of(context, value);
  std::reverse(items.begin(), items.end());
  if (!value.is_string()) return context.list(std::move(items), JinjaType::kIterator);
  MarkedText text;
  for (const JinjaValue& item : items) text.append(*item.text);
  return context.text(std::move(text));
}

JinjaValue items(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 0);
  if (!value.is_dict() && !value.is_undefined()) {
    context.fail_here("'items' needs a mapping, not {}", value.type_name());
  }
  std::vector<JinjaValue> pairs;
  if (value.is_dict()) {
    for (const auto& [key, item] : value.dict->items) {
      pairs.push_back(context.list({key, item}, JinjaType::kTuple));
    }
  }
  return context.list(std::move(pairs), JinjaType::kIterator);
}

// What an item is compared by: its attribute, and lower case unless case matters.
JinjaValue sort_key(JinjaContext& context, const JinjaValue& item, const JinjaValue* attribute,
                    bool case_sensitive) {
  const bool whole = attribute == nullptr || attribute->is_none();
  JinjaValue key = whole ? item : get_path(context, item, *attribute);
  if (case_sensitive || !key.is_string()) return key;
  return context.text(lower_text(*key.text));
}

// The order of `keys`, stable, as indices.
std::vector<size_t> sorted_order(JinjaContext& context, const std::vector<JinjaValue>& keys,
                                 bool reversed) {
  std::vector<size_t> order(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return reversed ? compare(context, keys[b], keys[a]) < 0
                    : compare(context, keys[a], keys[b]) < 0;
  });
  return order;
}

JinjaValue sort(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 3);
  const JinjaValue* attribute = args.find(2, "attribute");
  if (attribute != nullptr && attribute->is_string() &&
      attribute->bytes().find(',') != std::string::npos) {
    context.fail_here("sort by several attributes is not supported");
  }
  const std::vector<JinjaValue> given = items_of(context, value);
  std::vector<JinjaValue> keys;
  keys.reserve(given.size());
  for (const JinjaValue& item : given) {
    keys.push_back(sort_key(context, item, attribute, args.get_bool(1, "case_sensitive", false)));
  }
  std::vector<JinjaValue> result;
  for (const size_t i : sorted_order(context, keys, args.get_bool(0, "reverse", false))) {
    result.push_back(given[i]);
  }
  return context.list(std::move(result));
}

JinjaValue dictsort(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 3);
  if (!value.is_dict()) context.fail_here("'dictsort' needs a dict, not {}", value.type_name());
  const std::string by = args.get_text(context, 1, "by", "key").bytes();
  if (by != "key" && by != "value") context.fail_here("dictsort sorts by 'key' or 'value'");
  std::vector<JinjaValue> keys;
  for (const auto& [key, item] : value.dict->items) {
    keys.push_back(sort_key(context, by == "key" ? key : item, nullptr,
                            args.get_bool(0, "case_sensitive", false)));
  }
  std::vector<JinjaValue> result;
  for (const size_t i : sorted_order(context, keys, args.get_bool(2, "reverse", false))) {
    const auto& [key, item] = value.dict->items[i];
    result.push_back(context.list({key, item}, JinjaType::kTuple));
  }
  return context.list(std::move(result));
}

JinjaValue unique(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 2);
  const JinjaValue seen = context.dict();
  std::vector<JinjaValue> result;
  for (JinjaValue& item : items_of(context, value)) {
    const JinjaValue key = sort_key(context, item, args.find(1, "attribute"),
                                    args.get_bool(0, "case_sensitive", false));
    const size_t before = seen.dict->items.size();
    context.set_item(*seen.dict, key, JinjaValue::none());
    if (seen.dict->items.size() > before) result.push_back(std::move(item));
  }
  return context.list(std::move(result), JinjaType::kIterator);
}

// The item whose key comes first in the order that `better` tells.
template <typename Better>
JinjaValue extreme(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args,
                   Better better) {
  args.at_most(context, 2);
  JinjaValue best = JinjaValue::undefined("the extreme of nothing");
  JinjaValue best_key;
  bool first_item = true;
  for (const JinjaValue& item : items_of(context, value)) {
    JinjaValue key = sort_key(context, item, args.find(1, "attribute"),
                              args.get_bool(0, "case_sensitive", false));
    if (std::exchange(first_item, false) || better(compare(context, key, best_key))) {
      best = item;
      best_key = std::move(key);
    }
  }
  return best;
}

JinjaValue minimum(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  return extreme(context, value, args, [](std::partial_ordering order) { return order < 0; });
}

JinjaValue maximum(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  return extreme(context, value, args, [](std::partial_ordering order) { return order > 0; });
}

JinjaValue sum(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 2);
  const JinjaValue* attribute = args.find(0, "attribute");
  JinjaValue total = args.get(1, "start", JinjaValue::of_int(0));
  for (const JinjaValue& item : items_of(context, value)) {
    const bool whole = attribute == nullptr || attribute->is_none();
    total = arithmetic(context, JinjaOp::kAdd, total,
                       whole ? item : get_path(context, item, *attribute));
  }
  return total;
}

JinjaValue batch(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 2);
  args.need(context, 0, "linecount");
  const int64_t count = args.get_int(context, 0, "linecount", 1);
  if (count < 1) context.fail_here("'batch' needs a positive count");
  const JinjaValue fill = args.get(1, "fill_with", JinjaValue::none());
  std::vector<JinjaValue> rows;
  std::vector<JinjaValue> row;
  for (const JinjaValue& item : items_of(context, value)) {
    if (static_cast<int64_t>(row.size()) == count) {
      rows.push_back(context.list(std::exchange(row, {})));
    }
    row.push_back(item);
  }
  if (!row.empty() && !fill.is_none()) {
    context.charge(count);
    row.resize(static_cast<size_t>(std::max<int64_t>(count, static_cast<int64_t>(row.size()))),
               fill);
  }
  if (!row.empty()) rows.push_back(context.list(std::move(row)));
  return context.list(std::move(rows), JinjaType::kIterator);
}

constexpr JinjaFilter kFilters[] = {
    {"length", length},   {"count", length},      {"default", default_value},
    {"d", default_value}, {"first", first},       {"last", last},
    {"list", list},       {"reverse", reverse},   {"items", items},
    {"sort", sort},       {"dictsort", dictsort}, {"unique", unique},
    {"min", minimum},     {"max", maximum},       {"sum", sum},
    {"batch", batch},
};

}  // namespace

const JinjaFilter* find_list_filter(std::string_view name) { return find_entry(kFilters, name); }

}  // namespace clover
