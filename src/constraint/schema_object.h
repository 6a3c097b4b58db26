// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace clover {

// Where the parts of a schema stand, for errors: every place is a key below another place.
class SchemaPlaces {
 public:
  // Returns the place's number. `parent` -1: the whole schema.
  int32_t add(int32_t parent, std::string_view key);
  // A JSON pointer, "#/properties/name"; its middle is left out when it is very long.
  std::string text(int32_t place) const;
  // Error(kInvalidArgument) about a keyword there: "the schema at #/… : 'keyword' what".
  [[noreturn]] void refuse(int32_t place, std::string_view keyword, std::string_view what) const;

 private:
  struct Place {
    int32_t parent;
    std::string key;
  };
  std::vector<Place> places_;
};

// A JSON Schema that is an object, and its keywords. Everything throws Error(kInvalidArgument),
// naming place and keyword.
class SchemaObject {
 public:
  // Refuses keywords that are not known, or known and not supported.
  SchemaObject(const Json& object, const SchemaPlaces& places, int32_t place);

  const Json* find(std::string_view keyword) const;
  bool has(std::string_view keyword) const { return find(keyword) != nullptr; }
  bool has_any(const std::vector<std::string_view>& keywords) const;
  // Refuses every keyword that says something about values, but those given.
  void allow_only(const std::vector<std::string_view>& keywords, std::string_view beside) const;
  // A count of characters or items; nothing when absent. Greater ones than any text has are
  // `most`; `most` < 0: they are refused.
  std::optional<int64_t> count(std::string_view keyword, int64_t most) const;
  const Json* number(std::string_view keyword) const;
  // The list of a keyword, which must not be empty.
  const Json* list(std::string_view keyword) const;
  const Json* object(std::string_view keyword) const;
  bool flag(std::string_view keyword) const;
  // Of the keyword `type`: the names, each known; empty when absent.
  std::vector<std::string> types() const;
  int32_t place() const { return place_; }
  [[noreturn]] void refuse(std::string_view keyword, std::string_view what) const {
    places_.refuse(place_, keyword, what);
  }

 private:
  const Json& object_;
  const SchemaPlaces& places_;
  int32_t place_;
};

// What `pointer` ("#", "#/$defs/x") names within the schema; null when there is nothing.
const Json* find_reference(const Json& schema, std::string_view pointer);

}  // namespace clover
