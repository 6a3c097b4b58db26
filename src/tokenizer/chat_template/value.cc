// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/chat_template/value.h"

#include <fmt/format.h>

#include <cmath>

namespace clover {
namespace {

std::string string_key(std::string_view text) {
  std::string key = "s";
  key += text;
  return key;
}

}  // namespace

JinjaValue JinjaValue::undefined(std::string name) {
  JinjaValue value;
  value.text = std::make_shared<MarkedText>(std::move(name), true);
  return value;
}

JinjaValue JinjaValue::none(bool trusted) {
  JinjaValue value;
  value.type = JinjaType::kNone;
  value.trusted = trusted;
  return value;
}

JinjaValue JinjaValue::of_bool(bool b, bool trusted) {
  JinjaValue value;
  value.type = JinjaType::kBool;
  value.trusted = trusted;
  value.boolean = b;
  return value;
}

JinjaValue JinjaValue::of_int(int64_t i, bool trusted) {
  JinjaValue value;
  value.type = JinjaType::kInt;
  value.trusted = trusted;
  value.integer = i;
  return value;
}

JinjaValue JinjaValue::of_float(double d, bool trusted) {
  JinjaValue value;
  value.type = JinjaType::kFloat;
  value.trusted = trusted;
  value.number = d;
  return value;
}

JinjaValue JinjaValue::of_text(MarkedText text) {
  JinjaValue value;
  value.type = JinjaType::kString;
  value.text = std::make_shared<MarkedText>(std::move(text));
  return value;
}

JinjaValue JinjaValue::of_text(std::string text, bool trusted) {
  return of_text(MarkedText(std::move(text), trusted));
}

bool JinjaValue::is_callable() const {
  return type == JinjaType::kMacro || type == JinjaType::kFunction || type == JinjaType::kMethod;
}

double JinjaValue::as_double() const {
  return type == JinjaType::kFloat ? number : static_cast<double>(as_int());
}

std::string_view JinjaValue::type_name() const {
  switch (type) {
    case JinjaType::kUndefined:
      return "Undefined";
    case JinjaType::kNone:
      return "NoneType";
    case JinjaType::kBool:
      return "bool";
    case JinjaType::kInt:
      return "int";
    case JinjaType::kFloat:
      return "float";
    case JinjaType::kString:
      return "str";
    case JinjaType::kList:
      return "list";
    case JinjaType::kTuple:
      return "tuple";
    case JinjaType::kIterator:
      return "generator";
    case JinjaType::kDict:
      return "dict";
    case JinjaType::kNamespace:
      return "Namespace";
    case JinjaType::kMacro:
      return "Macro";
    case JinjaType::kFunction:
      return "function";
    case JinjaType::kMethod:
      return "method";
    case JinjaType::kLoop:
      return "LoopContext";
  }
  return "?";
}

bool is_hashable(const JinjaValue& value) {
  if (value.is(JinjaType::kTuple)) {
    for (const JinjaValue& item : value.list->items) {
      if (item.is_sequence() || !is_hashable(item)) return false;
    }
    return true;
  }
  return value.is_none() || value.is_number() || value.is_string();
}

std::string dict_key(const JinjaValue& value) {
  switch (value.type) {
    case JinjaType::kString:
      return string_key(value.bytes());
    case JinjaType::kBool:
    case JinjaType::kInt:
      return fmt::format("i{}", value.as_int());
    case JinjaType::kFloat:
      if (value.number == std::floor(value.number) && std::abs(value.number) < 9e18) {
        return fmt::format("i{}", static_cast<int64_t>(value.number));
      }
      return fmt::format("f{}", value.number);
    case JinjaType::kTuple: {
      std::string key = "t";
      for (const JinjaValue& item : value.list->items) {
        const std::string part = dict_key(item);
        key += fmt::format("{}:{}", part.size(), part);
      }
      return key;
    }
    default:
      return "N";
  }
}

const JinjaValue* JinjaDict::find(const JinjaValue& key) const {
  const auto found = index.find(dict_key(key));
  return found == index.end() ? nullptr : &items[found->second].second;
}

const JinjaValue* JinjaDict::find(std::string_view key) const {
  const auto found = index.find(string_key(key));
  return found == index.end() ? nullptr : &items[found->second].second;
}

void JinjaDict::set(const JinjaValue& key, JinjaValue value) {
  const auto [place, added] = index.try_emplace(dict_key(key), items.size());
  if (added) {
    items.emplace_back(key, std::move(value));
  } else {
    items[place->second].second = std::move(value);
  }
}

}  // namespace clover
