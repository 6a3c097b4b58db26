// SPDX-License-Identifier: Apache-2.0
#include "model/config_source.h"

#include <cmath>

#include "base/error.h"

namespace clover {

int64_t ConfigSource::int_in(std::string_view key, int64_t low, int64_t high,
                             std::optional<int64_t> fallback) const {
  std::optional<int64_t> value = find_int(key);
  if (!value) value = fallback;
  if (!value) fail(ErrorCode::kCorrupt, "{} is missing", describe(key));
  if (*value < low || *value > high) {
    fail(ErrorCode::kCorrupt, "{} is {}, which is not between {} and {}", describe(key), *value,
         low, high);
  }
  return *value;
}

double ConfigSource::float_in(std::string_view key, double low, double high,
                              std::optional<double> fallback) const {
  std::optional<double> value = find_float(key);
  if (!value) value = fallback;
  if (!value) fail(ErrorCode::kCorrupt, "{} is missing", describe(key));
  // Written so that NaN fails too.
  if (!(*value >= low && *value <= high)) {
    fail(ErrorCode::kCorrupt, "{} is {}, which is not between {} and {}", describe(key), *value,
         low, high);
  }
  return *value;
}

std::optional<int64_t> GgufSource::find_int(std::string_view key) const {
  return checkpoint_.meta_int(prefix_ + std::string(key));
}

std::optional<double> GgufSource::find_float(std::string_view key) const {
  return checkpoint_.meta_float(prefix_ + std::string(key));
}

std::optional<bool> GgufSource::find_bool(std::string_view key) const {
  return checkpoint_.meta_bool(prefix_ + std::string(key));
}

std::optional<std::string> GgufSource::find_string(std::string_view key) const {
  return checkpoint_.meta_string(prefix_ + std::string(key));
}

std::string GgufSource::describe(std::string_view key) const {
  return fmt::format("key '{}{}' of {}", prefix_, key, checkpoint_.path());
}

const Json* JsonSource::find(std::string_view key) const {
  const auto it = object_.find(std::string(key));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

std::optional<int64_t> JsonSource::find_int(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (value->is_number_unsigned() && value->get<uint64_t>() <= INT64_MAX) {
    return static_cast<int64_t>(value->get<uint64_t>());
  }
  if (value->is_number_integer() && !value->is_number_unsigned()) return value->get<int64_t>();
  if (value->is_number_float()) {
    const double number = value->get<double>();
    if (std::abs(number) < 0x1p53 && number == std::trunc(number)) {
      return static_cast<int64_t>(number);
    }
  }
  fail(ErrorCode::kCorrupt, "{} is not an integer", describe(key));
}

std::optional<double> JsonSource::find_float(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number()) fail(ErrorCode::kCorrupt, "{} is not a number", describe(key));
  return value->get<double>();
}

std::optional<bool> JsonSource::find_bool(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) fail(ErrorCode::kCorrupt, "{} is not true or false", describe(key));
  return value->get<bool>();
}

std::optional<std::string> JsonSource::find_string(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_string()) fail(ErrorCode::kCorrupt, "{} is not a string", describe(key));
  return value->get<std::string>();
}

std::string JsonSource::describe(std::string_view key) const {
  return fmt::format("key '{}' of {}", key, name_);
}

}  // namespace clover
