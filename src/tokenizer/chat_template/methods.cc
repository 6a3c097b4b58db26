// SPDX-License-Identifier: Apache-2.0
// Methods of dicts, lists and loops; those of strings are in string_methods.cc.
#include "tokenizer/chat_template/methods.h"

#include <algorithm>

#include "tokenizer/chat_template/loop.h"
#include "tokenizer/chat_template/operations.h"

namespace clover {
namespace {

JinjaValue dict_items(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 0);
  std::vector<JinjaValue> pairs;
  for (const auto& [key, value] : self.dict->items) {
    pairs.push_back(context.list({key, value}, JinjaType::kTuple));
  }
  return context.list(std::move(pairs));
}

JinjaValue dict_keys(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 0);
  return context.list(items_of(context, self));
}

JinjaValue dict_values(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 0);
  std::vector<JinjaValue> values;
  for (const auto& item : self.dict->items) values.push_back(item.second);
  return context.list(std::move(values));
}

JinjaValue dict_get(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 2);
  const JinjaValue& key = args.need(context, 0, "key");
  if (!is_hashable(key)) context.fail_here("a {} is never a key", key.type_name());
  const JinjaValue* found = self.dict->find(key);
  return found != nullptr ? *found : args.get(1, "default", JinjaValue::none());
}

JinjaValue dict_copy(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 0);
  JinjaValue copy = context.dict();
  for (const auto& [key, value] : self.dict->items) context.set_item(*copy.dict, key, value);
  return copy;
}

// Only append and extend change a list, as some templates build lists; Jinja's sandbox refuses all.
JinjaValue list_append(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 1);
  context.charge(4);
  self.list->items.push_back(args.need(context, 0, "object"));
  return JinjaValue::none();
}

JinjaValue list_extend(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 1);
  const std::vector<JinjaValue> more = items_of(context, args.need(context, 0, "iterable"));
  context.charge(4 * static_cast<int64_t>(more.size()));
  self.list->items.insert(self.list->items.end(), more.begin(), more.end());
  return JinjaValue::none();
}

JinjaValue list_count(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 1);
  const JinjaValue& wanted = args.need(context, 0, "value");
  int64_t count = 0;
  for (const JinjaValue& item : self.list->items) count += equal(context, item, wanted) ? 1 : 0;
  return JinjaValue::of_int(count);
}

JinjaValue list_index(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 1);
  const JinjaValue& wanted = args.need(context, 0, "value");
  for (size_t i = 0; i < self.list->items.size(); ++i) {
    if (equal(context, self.list->items[i], wanted)) {
      return JinjaValue::of_int(static_cast<int64_t>(i));
    }
  }
  context.fail_here("the value is not in the list");
}

JinjaValue list_copy(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  args.at_most(context, 0);
  return context.list(items_of(context, self));
}

JinjaValue loop_cycle(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  if (args.positional.empty()) context.fail_here("loop.cycle needs values");
  return args.positional[self.loop->index % args.positional.size()];
}

JinjaValue loop_changed(JinjaContext& context, const JinjaValue& self, const JinjaArgs& args) {
  const JinjaLoop& loop = *self.loop;
  bool same = loop.changed_called && loop.changed.size() == args.positional.size();
  for (size_t i = 0; same && i < args.positional.size(); ++i) {
    same = equal(context, loop.changed[i], args.positional[i]);
  }
  loop.changed_called = true;
  loop.changed = args.positional;
  return JinjaValue::of_bool(!same);
}

JinjaValue refuse(JinjaContext& context, const JinjaValue& self, const JinjaArgs&) {
  context.fail_here("a template must not change a {} this way", self.type_name());
}

constexpr JinjaMethodEntry kDictMethods[] = {
    {"items", dict_items}, {"keys", dict_keys},    {"values", dict_values}, {"get", dict_get},
    {"copy", dict_copy},   {"pop", refuse},        {"update", refuse},      {"clear", refuse},
    {"popitem", refuse},   {"setdefault", refuse},
};
constexpr JinjaMethodEntry kListMethods[] = {
    {"append", list_append}, {"extend", list_extend}, {"count", list_count}, {"index", list_index},
    {"copy", list_copy},     {"pop", refuse},         {"insert", refuse},    {"remove", refuse},
    {"sort", refuse},        {"reverse", refuse},     {"clear", refuse},
};
constexpr JinjaMethodEntry kTupleMethods[] = {{"count", list_count}, {"index", list_index}};
constexpr JinjaMethodEntry kLoopMethods[] = {{"cycle", loop_cycle}, {"changed", loop_changed}};

const JinjaMethodEntry* find_method(JinjaType type, std::string_view name) {
  switch (type) {
    case JinjaType::kString:
      return find_string_method(name);
    case JinjaType::kDict:
      return find_entry(kDictMethods, name);
    case JinjaType::kList:
      return find_entry(kListMethods, name);
    case JinjaType::kTuple:
      return find_entry(kTupleMethods, name);
    case JinjaType::kLoop:
      return find_entry(kLoopMethods, name);
    default:
      return nullptr;
  }
}

}  // namespace

bool has_method(const JinjaValue& value, std::string_view name) {
  return find_method(value.type, name) != nullptr;
}

bool is_known_method(std::string_view name) {
  for (const JinjaType type :
       {JinjaType::kString, JinjaType::kDict, JinjaType::kList, JinjaType::kLoop}) {
    if (find_method(type, name) != nullptr) return true;
  }
  return false;
}

JinjaValue call_method(JinjaContext& context, const JinjaMethod& method, const JinjaArgs& args) {
  return find_method(method.self.type, method.name)->run(context, method.self, args);
}

}  // namespace clover
