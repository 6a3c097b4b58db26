// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint.h"

#include <cmath>
#include <filesystem>
#include <limits>

#include "base/error.h"
#include "checkpoint/gguf_checkpoint.h"
#include "checkpoint/hugging_face.h"
#include "checkpoint/names.h"

namespace clover {
namespace {

using Scalar = MetaValue::Scalar;

// Integers up to this magnitude are exact in a double.
constexpr int64_t kExactInDouble = int64_t{1} << 53;

std::optional<int64_t> to_int(int64_t value) { return value; }
std::optional<int64_t> to_int(uint64_t value) {
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(value);
}
std::optional<int64_t> to_int(double value) {
  if (!(std::fabs(value) <= static_cast<double>(kExactInDouble))) return std::nullopt;
  if (value != std::trunc(value)) return std::nullopt;
  return static_cast<int64_t>(value);
}
std::optional<int64_t> to_int(bool) { return std::nullopt; }
std::optional<int64_t> to_int(const std::string&) { return std::nullopt; }

std::optional<double> to_float(double value) { return value; }
template <typename T>
std::optional<double> to_float(const T& value) {
  const std::optional<int64_t> number = to_int(value);
  if (!number) return std::nullopt;
  const auto converted = static_cast<double>(*number);
  // 2^63 itself would not convert back; every other rounding shows in the comparison.
  if (converted == 0x1p63 || static_cast<int64_t>(converted) != *number) return std::nullopt;
  return converted;
}

// Converts every element of any array with `convert`; nothing when one element does not convert or
// the value is no array.
template <typename T, typename Convert>
std::optional<std::vector<T>> convert_array(const MetaValue& meta, Convert convert) {
  return std::visit(
      [&](const auto& value) -> std::optional<std::vector<T>> {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, Scalar>) {
          return std::nullopt;
        } else {
          std::vector<T> out;
          out.reserve(value.size());
          for (const auto& element : value) {
            const std::optional<T> converted = convert(element);
            if (!converted) return std::nullopt;
            out.push_back(*converted);
          }
          return out;
        }
      },
      meta.value);
}

template <typename T, typename Convert>
std::optional<T> convert_scalar(const MetaValue& meta, Convert convert) {
  const auto* scalar = std::get_if<Scalar>(&meta.value);
  if (scalar == nullptr) return std::nullopt;
  return std::visit([&](const auto& value) { return std::optional<T>(convert(value)); }, *scalar);
}

[[noreturn]] void wrong_kind(const Checkpoint& checkpoint, std::string_view key,
                             std::string_view kind) {
  fail(ErrorCode::kCorrupt, "{}: the value of key {} is not {}", checkpoint.path(), quote_name(key),
       kind);
}

}  // namespace

const TensorInfo& Checkpoint::at(std::string_view name) const {
  const TensorInfo* tensor = find(name);
  if (tensor == nullptr) {
    fail(ErrorCode::kNotFound, "{} has no tensor {}", path(), quote_name(name));
  }
  return *tensor;
}

const MetaValue* Checkpoint::find_meta(std::string_view key) const {
  for (const auto& [name, value] : metadata()) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::optional<int64_t> Checkpoint::meta_int(std::string_view key) const {
  const MetaValue* meta = find_meta(key);
  if (meta == nullptr) return std::nullopt;
  auto value = convert_scalar<int64_t>(*meta, [](const auto& v) { return to_int(v); });
  if (!value) wrong_kind(*this, key, "a whole number of 63 bits");
  return value;
}

std::optional<double> Checkpoint::meta_float(std::string_view key) const {
  const MetaValue* meta = find_meta(key);
  if (meta == nullptr) return std::nullopt;
  auto value = convert_scalar<double>(*meta, [](const auto& v) { return to_float(v); });
  if (!value) wrong_kind(*this, key, "a number");
  return value;
}

std::optional<bool> Checkpoint::meta_bool(std::string_view key) const {
  const MetaValue* meta = find_meta(key);
  if (meta == nullptr) return std::nullopt;
  const auto* scalar = std::get_if<Scalar>(&meta->value);
  const auto* value = scalar ? std::get_if<bool>(scalar) : nullptr;
  if (value == nullptr) wrong_kind(*this, key, "a truth value");
  return *value;
}

std::optional<std::string> Checkpoint::meta_string(std::string_view key) const {
  const MetaValue* meta = find_meta(key);
  if (meta == nullptr) return std::nullopt;
  const auto* scalar = std::get_if<Scalar>(&meta->value);
  const auto* value = scalar ? std::get_if<std::string>(scalar) : nullptr;
  if (value == nullptr) wrong_kind(*this, key, "a string");
  return *value;
}

const std::vector<std::string>* Checkpoint::meta_strings(std::string_view key) const {
  const MetaValue* meta = find_meta(key);
  if (meta == nullptr) return nullptr;
  const auto* values = std::get_if<std::vector<std::string>>(&meta->value);
  if (values == nullptr) wrong_kind(*this, key, "an array of strings");
  return values;
}

std::optional<std::vector<int64_t>> Checkpoint::meta_ints(std::string_view key) const {
  const MetaValue* meta = find_meta(key);
  if (meta == nullptr) return std::nullopt;
  auto values = convert_array<int64_t>(*meta, [](const auto& v) { return to_int(v); });
  if (!values) wrong_kind(*this, key, "an array of whole numbers");
  return values;
}

std::optional<std::vector<double>> Checkpoint::meta_floats(std::string_view key) const {
  const MetaValue* meta = find_meta(key);
  if (meta == nullptr) return std::nullopt;
  auto values = convert_array<double>(*meta, [](const auto& v) { return to_float(v); });
  if (!values) wrong_kind(*this, key, "an array of numbers");
  return values;
}

std::unique_ptr<Checkpoint> open_checkpoint(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return open_hugging_face_folder(path);
  return open_gguf(path);
}

}  // namespace clover
