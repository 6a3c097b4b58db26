// SPDX-License-Identifier: Apache-2.0
#include "serve/body_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "serve/request_error.h"

namespace clover {

void bad_field(const std::string& field, const std::string& what) {
  throw RequestError(400, fmt::format("'{}' {}", field, what), field);
}

std::string shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  constexpr size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

BodyFields::BodyFields(const Json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (object_.is_object()) return;
  if (where_.empty()) throw RequestError(400, "the request body must be a JSON object");
  bad_field(where_, "must be an object");
}

std::string BodyFields::name_of(std::string_view name) const {
  return where_.empty() ? std::string(name) : fmt::format("{}.{}", where_, name);
}

const Json* BodyFields::find(std::string_view name) {
  known_.emplace(name);
  const auto it = object_.find(std::string(name));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

std::optional<double> BodyFields::number(std::string_view name, double low, double high) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) bad_field(name_of(name), "must be a number, not " + shown(*value));
  const auto number = value->get<double>();
  if (!(number >= low && number <= high))
    bad_field(name_of(name),
              fmt::format("must be from {} to {}, not {}", low, high, shown(*value)));
  return number;
}

std::optional<int64_t> BodyFields::integer(std::string_view name, int64_t low, int64_t high) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer())
    bad_field(name_of(name), "must be a whole number, not " + shown(*value));
  const bool huge =
      value->is_number_unsigned() &&
      value->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  const int64_t number = huge ? std::numeric_limits<int64_t>::max() : value->get<int64_t>();
  if (huge || number < low || number > high)
    bad_field(name_of(name),
              fmt::format("must be from {} to {}, not {}", low, high, shown(*value)));
  return number;
}

bool BodyFields::flag(std::string_view name, bool otherwise) {
  const Json* value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) bad_field(name_of(name), "must be true or false, not " + shown(*value));
  return value->get<bool>();
}

std::optional<std::string> BodyFields::text(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) bad_field(name_of(name), "must be a text, not " + shown(*value));
  return value->get<std::string>();
}

void BodyFields::only(std::string_view name, const Json& value, std::string_view why) {
  const Json* given = find(name);
  if (given != nullptr && *given != value)
    bad_field(name_of(name), fmt::format("can only be {}: {}", shown(value), why));
}

void BodyFields::refuse(std::string_view name, std::string_view why) {
  if (find(name) != nullptr) bad_field(name_of(name), fmt::format("is not supported: {}", why));
}

void BodyFields::finish() const {
  for (const auto& item : object_.items()) {
    if (known_.contains(item.key()) || item.value().is_null()) continue;
    const std::string name = name_of(item.key().substr(0, 100));
    bad_field(name, "is not a field of this request");
  }
}

int32_t token_id(const Json& value, const std::string& field, int32_t vocab) {
  if (!value.is_number_integer()) bad_field(field, "has a token id that is no whole number");
  const bool inside = value.is_number_unsigned()
                          ? value.get<uint64_t>() < static_cast<uint64_t>(vocab)
                          : value.get<int64_t>() >= 0 && value.get<int64_t>() < vocab;
  if (!inside)
    bad_field(field, fmt::format("has token id {}, which is outside the vocabulary of {}",
                                 shown(value), vocab));
  return value.get<int32_t>();
}

}  // namespace clover
