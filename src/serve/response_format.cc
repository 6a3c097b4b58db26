// SPDX-License-Identifier: Apache-2.0
#include "serve/response_format.h"

#include <algorithm>
#include <string>

namespace clover {
namespace {

constexpr size_t kLongestName = 64;

bool is_name(const std::string& name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kLongestName && std::ranges::all_of(name, fits);
}

Json read_schema(BodyFields& format) {
  const Json* named = format.find("json_schema");
  if (named == nullptr) bad_field(format.name_of("json_schema"), "is missing");
  BodyFields fields(*named, format.name_of("json_schema"));
  if (!is_name(fields.text("name").value_or("")))
    bad_field(fields.name_of("name"), "must be 1 to 64 letters, digits, _ or -");
  fields.text("description");    // for people
  fields.flag("strict", false);  // every answer keeps the schema
  const Json* schema = fields.find("schema");
  if (schema == nullptr) bad_field(fields.name_of("schema"), "is missing");
  fields.finish();
  return *schema;
}

}  // namespace

std::optional<Json> read_response_format(BodyFields& body) {
  const Json* value = body.find("response_format");
  if (value == nullptr) return std::nullopt;
  BodyFields format(*value, "response_format");
  const std::string type = format.text("type").value_or("");
  std::optional<Json> schema;
  if (type == "json_object")
    schema = Json{{"type", "object"}};
  else if (type == "json_schema")
    schema = read_schema(format);
  else if (type != "text")
    bad_field("response_format.type",
              "must be text, json_object or json_schema, not " + shown(Json(type)));
  format.finish();
  return schema;
}

}  // namespace clover
