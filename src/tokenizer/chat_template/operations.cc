// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/chat_template/operations.h"

#include <cmath>

#include "tokenizer/chat_template/format.h"
#include "tokenizer/chat_template/text_functions.h"
#include "tokenizer/chat_template/unicode.h"

namespace clover {
namespace {

bool equal_lists(JinjaContext& context, const JinjaList& a, const JinjaList& b) {
  if (a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(context, a.items[i], b.items[i])) return false;
  }
  return true;
}

bool equal_dicts(JinjaContext& context, const JinjaDict& a, const JinjaDict& b) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    const JinjaValue* other = b.find(key);
    if (other == nullptr || !equal(context, value, *other)) return false;
  }
  return true;
}

bool is_substring(JinjaContext& context, const JinjaValue& container, const JinjaValue& item) {
  if (!item.is_string()) {
    context.fail_here("'in <string>' needs a string on its left, not {}", item.type_name());
  }
  context.charge_text(container.text->size());
  return container.bytes().find(item.bytes()) != std::string::npos;
}

[[noreturn]] void fail_operands(JinjaContext& context, JinjaOp op, const JinjaValue& a,
                                const JinjaValue& b) {
  static constexpr std::string_view kNames[] = {
      "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  for (const JinjaValue* value : {&a, &b}) {
    if (value->is_undefined()) {
      context.fail_here("'{}' is undefined", value->text ? value->bytes() : "");
    }
  }
  context.fail_here("operator {} does not fit {} and {}", kNames[static_cast<int>(op)],
                    a.type_name(), b.type_name());
}

int64_t checked(JinjaContext& context, bool overflow, int64_t value) {
  if (overflow) context.fail_here("an integer grew beyond 64 bits");
  return value;
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

int64_t integer_power(JinjaContext& context, int64_t base, int64_t exponent) {
  int64_t result = 1;
  bool overflow = false;
  while (exponent > 0 && !overflow) {
    if (exponent % 2 == 1) overflow = __builtin_mul_overflow(result, base, &result);
    exponent /= 2;
    if (exponent > 0) overflow = overflow || __builtin_mul_overflow(base, base, &base);
  }
  return checked(context, overflow, result);
}

JinjaValue integer_arithmetic(JinjaContext& context, JinjaOp op, int64_t a, int64_t b,
                              bool trusted) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case JinjaOp::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case JinjaOp::kSub:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case JinjaOp::kMul:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case JinjaOp::kPow:
      if (b < 0) {
        return JinjaValue::of_float(std::pow(static_cast<double>(a), static_cast<double>(b)),
                                    trusted);
      }
      result = integer_power(context, a, b);
      break;
    default:
      if (b == 0) context.fail_here("division by zero");
      if (op == JinjaOp::kDiv) {
        return JinjaValue::of_float(static_cast<double>(a) / static_cast<double>(b), trusted);
      }
      if (b == -1) {  // the one divisor that overflows
        overflow = op == JinjaOp::kFloorDiv && __builtin_sub_overflow(int64_t{0}, a, &result);
      } else {
        result = op == JinjaOp::kFloorDiv ? floor_div(a, b) : a - floor_div(a, b) * b;
      }
  }
  return JinjaValue::of_int(checked(context, overflow, result), trusted);
}

JinjaValue float_arithmetic(JinjaContext& context, JinjaOp op, double a, double b, bool trusted) {
  const auto value = [&](double result) { return JinjaValue::of_float(result, trusted); };
  switch (op) {
    case JinjaOp::kAdd:
      return value(a + b);
    case JinjaOp::kSub:
      return value(a - b);
    case JinjaOp::kMul:
      return value(a * b);
    case JinjaOp::kPow:
      return value(std::pow(a, b));
    default:
      if (b == 0) context.fail_here("division by zero");
      if (op == JinjaOp::kDiv) return value(a / b);
      if (op == JinjaOp::kFloorDiv) return value(std::floor(a / b));
      const double rest = std::fmod(a, b);
      return value(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
  }
}

JinjaValue repeat(JinjaContext& context, const JinjaValue& value, int64_t times) {
  const auto size =
      static_cast<int64_t>(value.is_string() ? value.text->size() : value.list->items.size());
  int64_t total = 0;
  if (times < 0) times = 0;
  if (__builtin_mul_overflow(size, times, &total)) total = INT64_MAX / 2;
  if (value.is_string()) {
    context.charge_text(static_cast<size_t>(total));
    MarkedText text;
    for (int64_t i = 0; i < times && size > 0; ++i) text.append(*value.text);
    return JinjaValue::of_text(std::move(text));
  }
  context.charge(total);
  std::vector<JinjaValue> items;
  for (int64_t i = 0; i < times && size > 0; ++i) {
    items.insert(items.end(), value.list->items.begin(), value.list->items.end());
  }
  return context.list(std::move(items), value.type);
}

JinjaValue add_sequences(JinjaContext& context, const JinjaValue& a, const JinjaValue& b) {
  if (a.is_string()) {
    context.charge_text(a.text->size() + b.text->size());
    const bool markup = a.markup || b.markup;
    MarkedText text = markup && !a.markup ? escape_html(*a.text) : *a.text;
    text.append(markup && !b.markup ? escape_html(*b.text) : *b.text);
    JinjaValue sum = context.text(std::move(text));
    sum.markup = markup;
    return sum;
  }
  std::vector<JinjaValue> items = a.list->items;
  items.insert(items.end(), b.list->items.begin(), b.list->items.end());
  return context.list(std::move(items), a.type);
}

}  // namespace

bool is_true(const JinjaValue& value) {
  switch (value.type) {
    case JinjaType::kUndefined:
    case JinjaType::kNone:
      return false;
    case JinjaType::kBool:
    case JinjaType::kInt:
      return value.as_int() != 0;
    case JinjaType::kFloat:
      return value.number != 0;
    case JinjaType::kString:
      return !value.text->empty();
    case JinjaType::kList:
    case JinjaType::kTuple:
      return !value.list->items.empty();
    case JinjaType::kDict:
      return !value.dict->items.empty();
    default:
      return true;
  }
}

bool equal(JinjaContext& context, const JinjaValue& a, const JinjaValue& b) {
  const JinjaContext::Deeper deeper(context);
  context.charge(1);
  if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
  if (a.is_number() && b.is_number()) return a.as_double() == b.as_double();
  if (a.type != b.type) return false;
  switch (a.type) {
    case JinjaType::kString:
      context.charge_text(std::min(a.text->size(), b.text->size()));
      return a.bytes() == b.bytes();
    case JinjaType::kList:
    case JinjaType::kTuple:
      return a.list == b.list || equal_lists(context, *a.list, *b.list);
    case JinjaType::kDict:
      return a.dict == b.dict || equal_dicts(context, *a.dict, *b.dict);
    case JinjaType::kUndefined:
    case JinjaType::kNone:
      return true;
    default:
      return a.dict == b.dict;  // the same object
  }
}

std::partial_ordering compare(JinjaContext& context, const JinjaValue& a, const JinjaValue& b) {
  const JinjaContext::Deeper deeper(context);
  context.charge(1);
  if (a.is_integral() && b.is_integral()) return a.as_int() <=> b.as_int();
  if (a.is_number() && b.is_number()) return a.as_double() <=> b.as_double();
  if (a.is_string() && b.is_string()) {
    context.charge_text(std::min(a.text->size(), b.text->size()));
    return a.bytes().compare(b.bytes()) <=> 0;  // UTF-8 sorts as its code points do
  }
  if (!a.is_sequence() || a.type != b.type) fail_operands(context, JinjaOp::kLt, a, b);
  const auto& left = a.list->items;
  const auto& right = b.list->items;
  for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
    if (!equal(context, left[i], right[i])) return compare(context, left[i], right[i]);
  }
  return left.size() <=> right.size();
}

bool contains(JinjaContext& context, const JinjaValue& container, const JinjaValue& item) {
  switch (container.type) {
    case JinjaType::kString:
      return is_substring(context, container, item);
    case JinjaType::kList:
    case JinjaType::kTuple:
    case JinjaType::kIterator:
      for (const JinjaValue& candidate : container.list->items) {
        if (equal(context, candidate, item)) return true;
      }
      return false;
    case JinjaType::kDict:
      if (!is_hashable(item)) context.fail_here("a {} is never a key", item.type_name());
      return container.dict->find(item) != nullptr;
    case JinjaType::kUndefined:
      return false;
    default:
      context.fail_here("'in' cannot search a {}", container.type_name());
  }
}

bool compare_with(JinjaContext& context, JinjaOp op, const JinjaValue& a, const JinjaValue& b) {
  switch (op) {
    case JinjaOp::kEq:
      return equal(context, a, b);
    case JinjaOp::kNe:
      return !equal(context, a, b);
    case JinjaOp::kLt:
      return compare(context, a, b) < 0;
    case JinjaOp::kLe:
      return compare(context, a, b) <= 0;
    case JinjaOp::kGt:
      return compare(context, a, b) > 0;
    case JinjaOp::kGe:
      return compare(context, a, b) >= 0;
    case JinjaOp::kIn:
      return contains(context, b, a);
    case JinjaOp::kNotIn:
      return !contains(context, b, a);
    default:
      fail_operands(context, op, a, b);
  }
}

JinjaValue arithmetic(JinjaContext& context, JinjaOp op, const JinjaValue& a, const JinjaValue& b) {
  const bool trusted = a.trusted && b.trusted;
  if (a.is_integral() && b.is_integral()) {
    return integer_arithmetic(context, op, a.as_int(), b.as_int(), trusted);
  }
  if (a.is_number() && b.is_number()) {
    return float_arithmetic(context, op, a.as_double(), b.as_double(), trusted);
  }
  const auto repeatable = [](const JinjaValue& v) { return v.is_string() || v.is_sequence(); };
  if (op == JinjaOp::kAdd && a.type == b.type && repeatable(a)) return add_sequences(context, a, b);
  if (op == JinjaOp::kMul && repeatable(a) && b.is_integral()) {
    return repeat(context, a, b.as_int());
  }
  if (op == JinjaOp::kMul && repeatable(b) && a.is_integral()) {
    return repeat(context, b, a.as_int());
  }
  if (op == JinjaOp::kMod && a.is_string()) {
    const std::vector<JinjaValue> one = {b};
    return context.text(
        printf_format(context, *a.text, b.is(JinjaType::kTuple) ? b.list->items : one));
  }
  fail_operands(context, op, a, b);
}

JinjaValue negate(JinjaContext& context, const JinjaValue& value) {
  if (value.is(JinjaType::kFloat)) return JinjaValue::of_float(-value.number, value.trusted);
  return arithmetic(context, JinjaOp::kSub, JinjaValue::of_int(0), value);
}

}  // namespace clover
