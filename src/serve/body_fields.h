// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/json.h"

namespace clover {

// Reads the fields of a JSON object in a request. Every mistake is a RequestError(400) that names
// the field; a field that nobody asked for is one, too: nothing is dropped silently. null counts as
// absent, as in the OpenAI API.
class BodyFields {
 public:
  // `object` must outlive the reader. `where`: the name of the object in errors, empty for the
  // body. RequestError when it is no object.
  explicit BodyFields(const Json& object, std::string where = {});

  // Null when absent.
  const Json* find(std::string_view name);
  std::optional<double> number(std::string_view name, double low, double high);
  std::optional<int64_t> integer(std::string_view name, int64_t low, int64_t high);
  bool flag(std::string_view name, bool otherwise);
  std::optional<std::string> text(std::string_view name);
  // A field that may only be absent or have the one value that means nothing is asked for.
  void only(std::string_view name, const Json& value, std::string_view why);
  void refuse(std::string_view name, std::string_view why);
  // Refuses what was not read.
  void finish() const;

  // The field's name as errors give it.
  std::string name_of(std::string_view name) const;

 private:
  const Json& object_;
  std::string where_;
  std::set<std::string, std::less<>> known_;
};

// RequestError(400) about a field.
[[noreturn]] void bad_field(const std::string& field, const std::string& what);
// A number as JSON shows it, cut to a readable length.
std::string shown(const Json& value);
// A token id in [0, vocab).
int32_t token_id(const Json& value, const std::string& field, int32_t vocab);

}  // namespace clover
