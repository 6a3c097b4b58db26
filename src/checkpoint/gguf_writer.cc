// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/gguf_format.h"
#include "checkpoint/names.h"
#include "checkpoint/writer.h"
#include "checkpoint/writer_checks.h"

namespace clover {
namespace {

using gguf::ValueType;

static_assert(std::endian::native == std::endian::little, "GGUF files are little endian");

template <typename T>
void put(std::string& out, T value) {
  static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put(std::string& out, std::string_view text) {
  put(out, uint64_t{text.size()});
  out += text;
}

bool is_narrow(uint64_t value) { return value <= std::numeric_limits<uint32_t>::max(); }
bool is_narrow(int64_t value) {
  return value >= std::numeric_limits<int32_t>::min() &&
         value <= std::numeric_limits<int32_t>::max();
}
bool is_narrow(double value) {
  if (std::isinf(value)) return true;
  if (!(std::fabs(value) <= double{std::numeric_limits<float>::max()})) return false;
  return double{static_cast<float>(value)} == value;
}

template <typename T>
struct Widths;
template <>
struct Widths<uint64_t> {
  using Narrow = uint32_t;
  static constexpr ValueType kNarrow = ValueType::kUint32, kWide = ValueType::kUint64;
};
template <>
struct Widths<int64_t> {
  using Narrow = int32_t;
  static constexpr ValueType kNarrow = ValueType::kInt32, kWide = ValueType::kInt64;
};
template <>
struct Widths<double> {
  using Narrow = float;
  static constexpr ValueType kNarrow = ValueType::kFloat32, kWide = ValueType::kFloat64;
};

// Values of one type: the type's number, for an array its length, and the values.
template <typename T>
void put_numbers(std::string& out, std::span<const T> values, bool array) {
  const bool narrow = std::all_of(values.begin(), values.end(), [](T v) { return is_narrow(v); });
  put(out, narrow ? Widths<T>::kNarrow : Widths<T>::kWide);
  if (array) put(out, uint64_t{values.size()});
  for (const T value : values) {
    if (narrow) {
      put(out, static_cast<typename Widths<T>::Narrow>(value));
    } else {
      put(out, value);
    }
  }
}

void put_scalar(std::string& out, const MetaValue::Scalar& scalar) {
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, bool>) {
          put(out, ValueType::kBool);
          put(out, static_cast<uint8_t>(value));
        } else if constexpr (std::is_same_v<T, std::string>) {
          put(out, ValueType::kString);
          put(out, std::string_view(value));
        } else {
          put_numbers<T>(out, {&value, 1}, false);
        }
      },
      scalar);
}

void put_value(std::string& out, const MetaValue& meta) {
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, MetaValue::Scalar>) {
          put_scalar(out, value);
          return;
        } else {
          put(out, ValueType::kArray);
          if constexpr (std::is_same_v<T, std::vector<bool>>) {
            put(out, ValueType::kBool);
            put(out, uint64_t{value.size()});
            for (const bool element : value) put(out, static_cast<uint8_t>(element));
          } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
            put(out, ValueType::kString);
            put(out, uint64_t{value.size()});
            for (const auto& element : value) put(out, std::string_view(element));
          } else {
            put_numbers<typename T::value_type>(out, value, true);
          }
        }
      },
      meta.value);
}

uint32_t type_id(const TensorInfo& tensor) {
  for (const gguf::TypeId& entry : gguf::kTypeIds) {
    if (entry.type == tensor.type) return entry.id;
  }
  fail(ErrorCode::kUnsupported, "tensor {} of type {} cannot be stored in GGUF",
       quote_name(tensor.name), dtype_name(tensor.type));
}

uint64_t alignment_of(const std::vector<std::pair<std::string, MetaValue>>& metadata) {
  for (const auto& [key, meta] : metadata) {
    if (key != "general.alignment") continue;
    const auto* scalar = std::get_if<MetaValue::Scalar>(&meta.value);
    const auto* number = scalar ? std::get_if<uint64_t>(scalar) : nullptr;
    if (number && *number >= 8 && *number <= 1 << 20 && std::has_single_bit(*number))
      return *number;
    fail(ErrorCode::kInvalidArgument,
         "\"general.alignment\" must be a power of two from 8 to 2^20");
  }
  return gguf::kDefaultAlignment;
}

uint64_t padding(uint64_t size, uint64_t alignment) {
  return (alignment - size % alignment) % alignment;
}

std::string header_bytes(const std::vector<std::pair<std::string, MetaValue>>& metadata,
                         std::span<const TensorInfo> tensors, uint64_t alignment) {
  std::string out(gguf::kMagic);
  put(out, gguf::kVersion);
  put(out, uint64_t{tensors.size()});
  put(out, uint64_t{metadata.size()});
  for (const auto& [key, value] : metadata) {
    put(out, std::string_view(key));
    put_value(out, value);
  }
  uint64_t offset = 0;
  for (const TensorInfo& tensor : tensors) {
    put(out, std::string_view(tensor.name));
    put(out, static_cast<uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) put(out, *size);
    put(out, type_id(tensor));
    put(out, offset);
    offset += tensor.data.size() + padding(tensor.data.size(), alignment);
  }
  out.append(padding(out.size(), alignment), '\0');
  return out;
}

}  // namespace

void write_gguf(const std::string& path,
                const std::vector<std::pair<std::string, MetaValue>>& metadata,
                std::span<const TensorInfo> tensors) {
  check_tensors(tensors);
  for (const TensorInfo& tensor : tensors) {
    const bool blocks =
        tensor.shape.empty() || tensor.shape.back() % block_elements(tensor.type) == 0;
    if (tensor.shape.size() > gguf::kMaxDimensions || tensor.data.empty() || !blocks) {
      fail(ErrorCode::kInvalidArgument, "tensor {} has a shape that GGUF cannot hold as {}",
           quote_name(tensor.name), dtype_name(tensor.type));
    }
  }
  const uint64_t alignment = alignment_of(metadata);
  const std::string header = header_bytes(metadata, tensors, alignment);
  AtomicFile file(path);
  file.write(header);
  const std::string zeros(alignment, '\0');
  for (const TensorInfo& tensor : tensors) {
    file.write(tensor.data);
    file.write(std::string_view(zeros).substr(0, padding(tensor.data.size(), alignment)));
  }
  file.commit();
}

}  // namespace clover
