// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace clover {

// Typed access to the objects of tokenizer.json. Every error is kCorrupt and names the field.

// The member, or null when it is missing or JSON null.
inline const Json* json_member(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

inline bool json_bool(const Json& object, std::string_view key, bool otherwise) {
  const Json* value = json_member(object, key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) fail(ErrorCode::kCorrupt, "tokenizer: \"{}\" is not a boolean.", key);
  return value->get<bool>();
}

inline std::string json_string(const Json& object, std::string_view key) {
  const Json* value = json_member(object, key);
  if (value == nullptr || !value->is_string()) {
    fail(ErrorCode::kCorrupt, "tokenizer: \"{}\" is missing or not a string.", key);
  }
  return value->get<std::string>();
}

inline const Json& json_array(const Json& object, std::string_view key) {
  const Json* value = json_member(object, key);
  if (value == nullptr || !value->is_array()) {
    fail(ErrorCode::kCorrupt, "tokenizer: \"{}\" is missing or not an array.", key);
  }
  return *value;
}

// A token id: a whole number from 0 to 2^31 - 2.
inline int32_t json_token_id(const Json& value, std::string_view owner) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<uint64_t>() > 0x7FFFFFFE) ||
      value.get<int64_t>() < 0 || value.get<int64_t>() > 0x7FFFFFFE) {
    fail(ErrorCode::kCorrupt, "tokenizer: the id of \"{}\" is not a token id.", owner);
  }
  return value.get<int32_t>();
}

}  // namespace clover
