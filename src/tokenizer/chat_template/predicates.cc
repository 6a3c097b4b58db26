// SPDX-License-Identifier: Apache-2.0
// The tests of `is`.
#include "tokenizer/chat_template/builtins.h"
#include "tokenizer/chat_template/operations.h"
#include "tokenizer/chat_template/text_functions.h"

namespace clover {
namespace {

template <JinjaType kType>
bool has_type(JinjaContext&, const JinjaValue& value, const JinjaArgs&) {
  return value.is(kType);
}

bool is_defined(JinjaContext&, const JinjaValue& value, const JinjaArgs&) {
  return !value.is_undefined();
}

bool is_exactly_true(JinjaContext&, const JinjaValue& value, const JinjaArgs&) {
  return value.is(JinjaType::kBool) && value.boolean;
}

bool is_exactly_false(JinjaContext&, const JinjaValue& value, const JinjaArgs&) {
  return value.is(JinjaType::kBool) && !value.boolean;
}

bool is_number(JinjaContext&, const JinjaValue& value, const JinjaArgs&) {
  return value.is_number();
}

bool is_sequence(JinjaContext&, const JinjaValue& value, const JinjaArgs&) {
  return value.is_sequence() || value.is_string() || value.is_dict() || value.is_undefined();
}

bool is_iterable(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  return is_sequence(context, value, args) || value.is(JinjaType::kIterator);
}

bool is_callable(JinjaContext&, const JinjaValue& value, const JinjaArgs&) {
  return value.is_callable();
}

template <JinjaOp kOp>
bool compares(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 1);
  return compare_with(context, kOp, value, args.need(context, 0, "other"));
}

bool is_same(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  const JinjaValue& other = args.need(context, 0, "other");
  if (value.type != other.type) return false;
  if (value.is_sequence() || value.is_dict()) return value.list == other.list;
  return equal(context, value, other);
}

int64_t modulo(JinjaContext& context, const JinjaValue& value, int64_t divisor) {
  const JinjaValue rest = arithmetic(context, JinjaOp::kMod, value, JinjaValue::of_int(divisor));
  if (rest.is_string()) context.fail_here("a string is not divisible");
  return rest.is_integral() ? rest.as_int() : static_cast<int64_t>(rest.number != 0);
}

bool is_odd(JinjaContext& context, const JinjaValue& value, const JinjaArgs&) {
  return modulo(context, value, 2) == 1;
}

bool is_even(JinjaContext& context, const JinjaValue& value, const JinjaArgs&) {
  return modulo(context, value, 2) == 0;
}

bool is_divisible(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.need(context, 0, "num");
  return modulo(context, value, args.get_int(context, 0, "num", 1)) == 0;
}

// Whether changing case one way leaves the printed value and the other way does not.
bool is_lower(JinjaContext& context, const JinjaValue& value, const JinjaArgs&) {
  if (!value.is_string()) return false;
  context.charge_text(value.text->size());
  return lower_text(*value.text).bytes() == value.bytes() &&
         upper_text(*value.text).bytes() != value.bytes();
}

bool is_upper(JinjaContext& context, const JinjaValue& value, const JinjaArgs&) {
  if (!value.is_string()) return false;
  context.charge_text(value.text->size());
  return upper_text(*value.text).bytes() == value.bytes() &&
         lower_text(*value.text).bytes() != value.bytes();
}

bool is_filter_name(JinjaContext&, const JinjaValue& value, const JinjaArgs&) {
  return value.is_string() && find_jinja_filter(value.bytes()) != nullptr;
}

bool is_test_name(JinjaContext&, const JinjaValue& value, const JinjaArgs&) {
  return value.is_string() && find_jinja_test(value.bytes()) != nullptr;
}

constexpr JinjaTest kTests[] = {
    {"defined", is_defined},
    {"undefined", has_type<JinjaType::kUndefined>},
    {"none", has_type<JinjaType::kNone>},
    {"boolean", has_type<JinjaType::kBool>},
    {"integer", has_type<JinjaType::kInt>},
    {"float", has_type<JinjaType::kFloat>},
    {"string", has_type<JinjaType::kString>},
    {"mapping", has_type<JinjaType::kDict>},
    {"true", is_exactly_true},
    {"false", is_exactly_false},
    {"number", is_number},
    {"sequence", is_sequence},
    {"iterable", is_iterable},
    {"callable", is_callable},
    {"eq", compares<JinjaOp::kEq>},
    {"equalto", compares<JinjaOp::kEq>},
    {"==", compares<JinjaOp::kEq>},
    {"ne", compares<JinjaOp::kNe>},
    {"!=", compares<JinjaOp::kNe>},
    {"lt", compares<JinjaOp::kLt>},
    {"lessthan", compares<JinjaOp::kLt>},
    {"<", compares<JinjaOp::kLt>},
    {"le", compares<JinjaOp::kLe>},
    {"<=", compares<JinjaOp::kLe>},
    {"gt", compares<JinjaOp::kGt>},
    {"greaterthan", compares<JinjaOp::kGt>},
    {">", compares<JinjaOp::kGt>},
    {"ge", compares<JinjaOp::kGe>},
    {">=", compares<JinjaOp::kGe>},
    {"in", compares<JinjaOp::kIn>},
    {"sameas", is_same},
    {"odd", is_odd},
    {"even", is_even},
    {"divisibleby", is_divisible},
    {"lower", is_lower},
    {"upper", is_upper},
    {"filter", is_filter_name},
    {"test", is_test_name},
};

}  // namespace

const JinjaTest* find_jinja_test(std::string_view name) { return find_entry(kTests, name); }

}  // namespace clover
