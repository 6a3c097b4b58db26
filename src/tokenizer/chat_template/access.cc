// SPDX-License-Identifier: Apache-2.0
// Looking into values: iteration, attributes, subscripts and slices.
#include <algorithm>

#include "tokenizer/chat_template/builtins.h"
#include "tokenizer/chat_template/loop.h"
#include "tokenizer/chat_template/operations.h"
#include "tokenizer/chat_template/unicode.h"

namespace clover {
namespace {

std::vector<JinjaValue> characters(JinjaContext& context, const MarkedText& text) {
  std::vector<JinjaValue> items;
  const std::string& bytes = text.bytes();
  for (size_t at = 0; at < bytes.size();) {
    context.charge(4);
    const size_t length = code_point_at(bytes, at).length;
    items.push_back(JinjaValue::of_text(text.slice(at, at + length)));
    at += length;
  }
  return items;
}

// Python's rule for a negative index; false when it is out of range.
bool wrap_index(int64_t& index, int64_t length) {
  if (index < 0) index += length;
  return index >= 0 && index < length;
}

JinjaValue index_sequence(JinjaContext& context, const JinjaValue& value, int64_t index) {
  const std::string name = fmt::format("element {}", index);
  if (value.is_sequence()) {
    const auto& items = value.list->items;
    if (!wrap_index(index, static_cast<int64_t>(items.size()))) return JinjaValue::undefined(name);
    return items[static_cast<size_t>(index)];
  }
  if (!wrap_index(index, length_of(context, value))) return JinjaValue::undefined(name);
  const size_t begin = byte_of_code_point(value.bytes(), static_cast<size_t>(index));
  const size_t length = code_point_at(value.bytes(), begin).length;
  return context.text(value.text->slice(begin, begin + length));
}

struct SliceRange {
  int64_t start;
  int64_t stop;
  int64_t step;
};

// The bounds as Python's slice.indices() gives them.
SliceRange slice_range(JinjaContext& context, const JinjaValue* const* parts, int64_t length) {
  const auto given = [&](int i) {
    if (parts[i] == nullptr || parts[i]->is_none()) return false;
    if (!parts[i]->is_integral()) {
      context.fail_here("a slice needs integers, not {}", parts[i]->type_name());
    }
    return true;
  };
  SliceRange range{0, 0, given(2) ? parts[2]->as_int() : 1};
  if (range.step == 0) context.fail_here("a slice cannot step by zero");
  const bool back = range.step < 0;
  const int64_t low = back ? -1 : 0;
  const int64_t high = back ? length - 1 : length;
  const auto bound = [&](int i, int64_t otherwise) {
    if (!given(i)) return otherwise;
    int64_t value = parts[i]->as_int();
    if (value < 0) value = value < -length ? low : value + length;
    return std::clamp(value, low, high);
  };
  range.start = bound(0, back ? high : low);
  range.stop = bound(1, back ? low : high);
  return range;
}

// The indices of a slice, in order.
std::vector<size_t> slice_indices(const SliceRange& range) {
  std::vector<size_t> indices;
  int64_t i = range.start;
  while (range.step > 0 ? i < range.stop : i > range.stop) {
    indices.push_back(static_cast<size_t>(i));
    if (__builtin_add_overflow(i, range.step, &i)) break;
  }
  return indices;
}

JinjaValue slice_text(JinjaContext& context, const MarkedText& text, const SliceRange& range) {
  const std::string& bytes = text.bytes();
  if (range.step == 1) {
    const size_t begin = byte_of_code_point(bytes, static_cast<size_t>(range.start));
    const auto count = static_cast<size_t>(std::max<int64_t>(range.stop - range.start, 0));
    const size_t end = begin + byte_of_code_point(std::string_view(bytes).substr(begin), count);
    return context.text(text.slice(begin, end));
  }
  std::vector<size_t> starts;
  for (size_t at = 0; at < bytes.size(); at += code_point_at(bytes, at).length) {
    starts.push_back(at);
  }
  context.charge(static_cast<int64_t>(starts.size()));
  MarkedText result;
  for (const size_t i : slice_indices(range)) {
    result.append(text, starts[i], starts[i] + code_point_at(bytes, starts[i]).length);
  }
  return context.text(std::move(result));
}

}  // namespace

std::vector<JinjaValue> items_of(JinjaContext& context, const JinjaValue& value) {
  switch (value.type) {
    case JinjaType::kUndefined:
      return {};
    case JinjaType::kString:
      return characters(context, *value.text);
    case JinjaType::kList:
    case JinjaType::kTuple:
      context.charge(static_cast<int64_t>(value.list->items.size()));
      return value.list->items;
    case JinjaType::kIterator:
      return std::exchange(value.list->items, {});
    case JinjaType::kDict: {
      context.charge(static_cast<int64_t>(value.dict->items.size()));
      std::vector<JinjaValue> keys;
      for (const auto& item : value.dict->items) keys.push_back(item.first);
      return keys;
    }
    default:
      context.fail_here("a {} cannot be iterated over", value.type_name());
  }
}

int64_t length_of(JinjaContext& context, const JinjaValue& value) {
  switch (value.type) {
    case JinjaType::kUndefined:
      return 0;
    case JinjaType::kString:
      context.charge_text(value.text->size());
      return static_cast<int64_t>(count_code_points(value.bytes()));
    case JinjaType::kList:
    case JinjaType::kTuple:
      return static_cast<int64_t>(value.list->items.size());
    case JinjaType::kDict:
      return static_cast<int64_t>(value.dict->items.size());
    default:
      context.fail_here("a {} has no length", value.type_name());
  }
}

JinjaValue get_attribute(JinjaContext& context, const JinjaValue& value, const std::string& name) {
  switch (value.type) {
    case JinjaType::kUndefined:
      context.fail_here("'{}' is undefined, so it has no attribute '{}'",
                        value.text ? value.bytes() : "", name);
    case JinjaType::kNamespace:
      if (const JinjaValue* found = value.dict->find(name)) return *found;
      return JinjaValue::undefined(name);
    case JinjaType::kLoop:
      return loop_attribute(context, value, name);
    default:
      break;
  }
  if (has_method(value, name)) return context.method(value, name);
  if (value.is_dict()) {
    if (const JinjaValue* found = value.dict->find(name)) return *found;
  }
  return JinjaValue::undefined(name);
}

JinjaValue get_item(JinjaContext& context, const JinjaValue& value, const JinjaValue& key) {
  if (value.is_dict() && is_hashable(key)) {
    if (const JinjaValue* found = value.dict->find(key)) return *found;
  } else if ((value.is_sequence() || value.is_string()) && key.is_integral()) {
    return index_sequence(context, value, key.as_int());
  }
  if (value.is_undefined()) {
    context.fail_here("'{}' is undefined, so it has no element", value.text ? value.bytes() : "");
  }
  if (key.is_string()) return get_attribute(context, value, key.bytes());
  return JinjaValue::undefined("element");
}

JinjaValue get_slice(JinjaContext& context, const JinjaValue& value,
                     const JinjaValue* const* parts) {
  if (value.is_undefined()) {
    context.fail_here("'{}' is undefined, so it has no slice", value.text ? value.bytes() : "");
  }
  if (!value.is_string() && !value.is_sequence()) return JinjaValue::undefined("slice");
  const SliceRange range = slice_range(context, parts, length_of(context, value));
  if (value.is_string()) return slice_text(context, *value.text, range);
  context.charge(std::abs(range.stop - range.start));
  std::vector<JinjaValue> items;
  for (const size_t i : slice_indices(range)) items.push_back(value.list->items[i]);
  return context.list(std::move(items), value.type);
}

JinjaValue get_path(JinjaContext& context, JinjaValue value, const JinjaValue& path) {
  if (!path.is_string()) return get_item(context, value, path);
  const std::string& text = path.bytes();
  for (size_t at = 0; at <= text.size();) {
    context.charge(1);
    const size_t dot = std::min(text.find('.', at), text.size());
    const std::string part = text.substr(at, dot - at);
    const bool number =
        !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos;
    value =
        get_item(context, value,
                 number ? JinjaValue::of_int(std::stoll(part)) : JinjaValue::of_text(part, true));
    at = dot + 1;
  }
  return value;
}

}  // namespace clover
