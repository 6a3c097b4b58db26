// SPDX-License-Identifier: Apache-2.0
#include "constraint/schema_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace clover {
namespace {

constexpr std::array<std::string_view, 16> kAnnotations = {
    "title", "description", "default",    "examples", "example",   "$schema",  "$id", "$comment",
    "$defs", "definitions", "deprecated", "readOnly", "writeOnly", "nullable", "id",  "$anchor"};
constexpr std::array<std::string_view, 22> kAssertions = {"type",
                                                          "enum",
                                                          "const",
                                                          "properties",
                                                          "required",
                                                          "additionalProperties",
                                                          "items",
                                                          "minItems",
                                                          "maxItems",
                                                          "prefixItems",
                                                          "minLength",
                                                          "maxLength",
                                                          "minimum",
                                                          "maximum",
                                                          "anyOf",
                                                          "exclusiveMinimum",
                                                          "exclusiveMaximum",
                                                          "oneOf",
                                                          "allOf",
                                                          "$ref",
                                                          "uniqueItems",
                                                          "multipleOf"};
constexpr std::array<std::string_view, 7> kTypes = {"null",   "boolean", "integer", "number",
                                                    "string", "array",   "object"};
// Smallest sizes beyond this can never be reached.
constexpr int64_t kMostRequired = 65536;
constexpr int64_t kLongest = int64_t{1} << 30;

template <size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::string cut(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  return std::string(text.substr(0, most)) + "...";
}

// Names in errors are the client's own, as JSON spells them so that nothing in them is special.
std::string escaped(const std::string& name) {
  const std::string text = Json(name).dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.substr(1, text.size() - 2);
}

std::string quoted(std::string_view name) { return fmt::format("'{}'", escaped(cut(name, 60))); }

}  // namespace

int32_t SchemaPlaces::add(int32_t parent, std::string_view key) {
  places_.push_back({parent, cut(key, 60)});
  return static_cast<int32_t>(places_.size()) - 1;
}

std::string SchemaPlaces::text(int32_t place) const {
  std::vector<std::string_view> keys;
  for (; place >= 0; place = places_[static_cast<size_t>(place)].parent)
    keys.push_back(places_[static_cast<size_t>(place)].key);
  constexpr size_t kEnd = 8;  // keys at either end
  std::string text = "#";
  for (size_t i = keys.size(); i-- > 0;) {
    if (keys[i].empty()) continue;
    const bool middle = i >= kEnd && i + kEnd < keys.size();
    if (!middle) text += fmt::format("/{}", keys[i]);
    if (middle && i == kEnd) text += "/...";
  }
  return escaped(text);
}

void SchemaPlaces::refuse(int32_t place, std::string_view keyword, std::string_view what) const {
  fail(ErrorCode::kInvalidArgument, "the schema at {}: {} {}", text(place), quoted(keyword), what);
}

SchemaObject::SchemaObject(const Json& object, const SchemaPlaces& places, int32_t place)
    : object_(object), places_(places), place_(place) {
  for (const auto& item : object_.items())
    if (!contains(kAnnotations, item.key()) && !contains(kAssertions, item.key()))
      refuse(item.key(), "is not supported");
  if (has("multipleOf")) refuse("multipleOf", "is not supported");
  if (flag("uniqueItems")) refuse("uniqueItems", "is not supported");
}

const Json* SchemaObject::find(std::string_view keyword) const {
  const auto it = object_.find(std::string(keyword));
  return it == object_.end() ? nullptr : &*it;
}

bool SchemaObject::has_any(const std::vector<std::string_view>& keywords) const {
  return std::ranges::any_of(keywords, [&](std::string_view keyword) { return has(keyword); });
}

void SchemaObject::allow_only(const std::vector<std::string_view>& keywords,
                              std::string_view beside) const {
  for (const auto& item : object_.items()) {
    const bool asserts = contains(kAssertions, item.key()) || item.key() == "nullable";
    if (asserts && std::ranges::find(keywords, item.key()) == keywords.end())
      refuse(item.key(), fmt::format("beside {} is not supported", quoted(beside)));
  }
}

std::optional<int64_t> SchemaObject::count(std::string_view keyword, int64_t most) const {
  const Json* value = number(keyword);
  if (value == nullptr) return std::nullopt;
  const auto size = value->get<double>();
  if (!(size >= 0.0) || size != std::floor(size))
    refuse(keyword, "must be a whole number and not negative");
  if (most < 0 && size > static_cast<double>(kMostRequired))
    refuse(keyword, fmt::format("asks for more than {}, which no answer has", kMostRequired));
  if (size > static_cast<double>(kLongest)) return most;
  return static_cast<int64_t>(size);
}

const Json* SchemaObject::number(std::string_view keyword) const {
  const Json* value = find(keyword);
  if (value == nullptr) return nullptr;
  if (!value->is_number()) refuse(keyword, "must be a number");
  return value;
}

const Json* SchemaObject::list(std::string_view keyword) const {
  const Json* value = find(keyword);
  if (value == nullptr) return nullptr;
  if (!value->is_array() || value->empty()) refuse(keyword, "must be a list that is not empty");
  return value;
}

const Json* SchemaObject::object(std::string_view keyword) const {
  const Json* value = find(keyword);
  if (value == nullptr) return nullptr;
  if (!value->is_object()) refuse(keyword, "must be an object");
  return value;
}

bool SchemaObject::flag(std::string_view keyword) const {
  const Json* value = find(keyword);
  if (value == nullptr) return false;
  if (!value->is_boolean()) refuse(keyword, "must be true or false");
  return value->get<bool>();
}

std::vector<std::string> SchemaObject::types() const {
  const Json* value = find("type");
  std::vector<std::string> names;
  if (value == nullptr) return names;
  const auto add = [&](const Json& name) {
    if (!name.is_string() || !contains(kTypes, name.get_ref<const std::string&>()))
      refuse("type", "names a type that JSON does not have");
    if (std::ranges::find(names, name.get_ref<const std::string&>()) == names.end())
      names.push_back(name.get<std::string>());
  };
  if (!value->is_array()) {
    add(*value);
    return names;
  }
  for (const Json& name : *list("type")) add(name);
  return names;
}

const Json* find_reference(const Json& schema, std::string_view pointer) {
  if (!pointer.starts_with("#")) return nullptr;
  pointer.remove_prefix(1);
  const Json* at = &schema;
  while (!pointer.empty()) {
    if (pointer.front() != '/') return nullptr;
    const size_t end = std::min(pointer.find('/', 1), pointer.size());
    std::string key(pointer.substr(1, end - 1));
    pointer.remove_prefix(end);
    for (const auto& [escape, plain] : {std::pair{"~1", "/"}, std::pair{"~0", "~"}})
      for (size_t i = key.find(escape); i != std::string::npos; i = key.find(escape, i + 1))
        key.replace(i, 2, plain);
    if (at->is_object()) {
      const auto it = at->find(key);
      if (it == at->end()) return nullptr;
      at = &*it;
    } else if (at->is_array()) {
      size_t index = 0;
      const auto [stop, error] = std::from_chars(key.data(), key.data() + key.size(), index);
      if (error != std::errc() || stop != key.data() + key.size() || index >= at->size())
        return nullptr;
      at = &(*at)[index];
    } else {
      return nullptr;
    }
  }
  return at;
}

}  // namespace clover
