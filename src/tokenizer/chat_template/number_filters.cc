// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cmath>
#include <optional>

#include "tokenizer/chat_template/builtins.h"
#include "tokenizer/chat_template/operations.h"
#include "tokenizer/chat_template/text_functions.h"

namespace clover {
namespace {

// A number's text without surrounding space and a leading plus.
std::string number_text(const JinjaValue& value) {
  std::string text = strip_text(*value.text, nullptr, Side::kBoth).bytes();
  if (text.starts_with('+') && !text.starts_with("+-")) text.erase(0, 1);
  return text;
}

std::optional<double> float_of(const JinjaValue& value) {
  if (value.is_number()) return value.as_double();
  if (!value.is_string()) return std::nullopt;
  const std::string text = number_text(value);
  double number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || result.ptr != text.data() + text.size()) return std::nullopt;
  if (result.ec != std::errc()) return std::nullopt;
  return number;
}

std::optional<int64_t> int_of(const JinjaValue& value, int base) {
  if (value.is_integral()) return value.as_int();
  if (value.is_string()) {
    const std::string text = number_text(value);
    int64_t number = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), number, base);
    const bool whole = result.ptr == text.data() + text.size() && !text.empty();
    if (result.ec == std::errc() && whole) return number;
  }
  const std::optional<double> number = float_of(value);
  if (!number || !std::isfinite(*number) || std::abs(*number) >= 9e18) return std::nullopt;
  return static_cast<int64_t>(*number);
}

// Whether the result of converting `value` is trusted.
bool trust_of(const JinjaValue& value) {
  return value.is_string() ? value.text->all_trusted() : value.trusted;
}

JinjaValue to_int(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 2);
  const int64_t base = args.get_int(context, 1, "base", 10);
  if (base < 2 || base > 36) context.fail_here("'int' needs a base from 2 to 36");
  if (value.is_undefined()) context.charge(1);
  const std::optional<int64_t> number = int_of(value, static_cast<int>(base));
  if (number) return JinjaValue::of_int(*number, trust_of(value));
  return args.get(0, "default", JinjaValue::of_int(0));
}

JinjaValue to_float(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 1);
  const std::optional<double> number = float_of(value);
  if (number) return JinjaValue::of_float(*number, trust_of(value));
  return args.get(0, "default", JinjaValue::of_float(0));
}

JinjaValue absolute(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 0);
  if (!value.is_number()) context.fail_here("'abs' needs a number, not {}", value.type_name());
  if (value.is(JinjaType::kFloat))
    return JinjaValue::of_float(std::abs(value.number), value.trusted);
  return value.as_int() < 0 ? negate(context, value)
                            : JinjaValue::of_int(value.as_int(), value.trusted);
}

JinjaValue round(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args) {
  args.at_most(context, 2);
  if (!value.is_number()) context.fail_here("'round' needs a number, not {}", value.type_name());
  const int64_t precision = args.get_int(context, 0, "precision", 0);
  if (precision < 0 || precision > 15) context.fail_here("'round' needs a precision from 0 to 15");
  const std::string method = args.get_text(context, 1, "method", "common").bytes();
  const double number = value.as_double();
  if (method == "common") {
    if (value.is_integral()) return JinjaValue::of_int(value.as_int(), value.trusted);
    const std::string text = fmt::format("{:.{}f}", number, static_cast<int>(precision));
    double rounded = number;
    std::from_chars(text.data(), text.data() + text.size(), rounded);
    return JinjaValue::of_float(rounded, value.trusted);
  }
  if (method != "ceil" && method != "floor") {
    context.fail_here("'round' knows the methods common, ceil and floor");
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = number * scale;
  return JinjaValue::of_float((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale,
                              value.trusted);
}

constexpr JinjaFilter kFilters[] = {
    {"int", to_int},
    {"float", to_float},
    {"abs", absolute},
    {"round", round},
};

}  // namespace

const JinjaFilter* find_number_filter(std::string_view name) { return find_entry(kFilters, name); }

}  // namespace clover
