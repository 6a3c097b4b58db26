// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/gguf_reader.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <unordered_set>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "checkpoint/gguf_format.h"
#include "checkpoint/names.h"

namespace clover {
namespace {

using gguf::ValueType;

// Limits well above every real model. They bound what the metadata may cost beyond the file's own
// size, since a string of no characters takes 8 bytes in the file and 32 in memory.
constexpr uint64_t kMaxKeys = 1 << 16;
constexpr uint64_t kMaxTensors = 1 << 20;
constexpr uint64_t kMaxArrayElements = 1 << 22;  // of all arrays of a file together
constexpr uint64_t kMaxNameLength = 1 << 16;
constexpr uint32_t kMaxAlignment = 1 << 20;

// The least that a key with its value and a tensor's description take in a file.
constexpr uint64_t kMinKeyBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;

// Bytes of one value of a type in the file (of a string: of its length), 0 for unknown types.
uint64_t value_bytes(ValueType type) {
  switch (type) {
    case ValueType::kUint8:
    case ValueType::kInt8:
    case ValueType::kBool:
      return 1;
    case ValueType::kUint16:
    case ValueType::kInt16:
      return 2;
    case ValueType::kUint32:
    case ValueType::kInt32:
    case ValueType::kFloat32:
      return 4;
    case ValueType::kString:
    case ValueType::kUint64:
    case ValueType::kInt64:
    case ValueType::kFloat64:
      return 8;
    case ValueType::kArray:
      break;
  }
  return 0;
}

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& file_name)
      : bytes_(bytes), name_(file_name), in_(bytes, name_) {}

  GgufFile parse() {
    read_header();
    read_metadata();
    read_alignment();
    for (uint64_t i = 0; i < tensor_count_; ++i) read_tensor();
    place_tensors();
    refuse_overlaps();
    return std::move(file_);
  }

 private:
  void read_header();
  void read_metadata();
  void read_alignment();
  void read_tensor();
  std::vector<int64_t> read_shape(const std::string& tensor);
  void place_tensors();
  void refuse_overlaps() const;

  std::string_view read_string(uint64_t longest, std::string_view field);
  MetaValue read_value(ValueType type, std::string_view key);
  MetaValue::Scalar read_scalar(ValueType type, std::string_view key);
  MetaValue read_array(std::string_view key);
  MetaValue read_elements(ValueType type, uint64_t count, std::string_view key);
  template <typename Out, typename In>
  MetaValue read_numbers(uint64_t count, std::string_view field);
  bool read_bool(std::string_view key);

  template <typename... Args>
  [[noreturn]] void corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kCorrupt, "{}, byte {}: {}", name_, in_.offset(),
         fmt::format(format, std::forward<Args>(args)...));
  }

  std::span<const std::byte> bytes_;
  std::string name_;
  ByteReader in_;
  GgufFile file_;
  uint64_t tensor_count_ = 0;
  uint64_t key_count_ = 0;
  uint64_t array_elements_ = 0;
  std::vector<uint64_t> offsets_;  // of the tensors, from the start of the data section
  std::unordered_set<std::string> tensor_names_;
};

void Parser::read_header() {
  if (!looks_like_gguf(bytes_)) {
    fail(ErrorCode::kCorrupt, "{} is not a GGUF file: it does not begin with \"GGUF\"", name_);
  }
  in_.take(gguf::kMagic.size(), "the magic number");
  file_.version = in_.read<uint32_t>("the version");
  if ((file_.version & 0xffff) == 0 && file_.version != 0) {
    fail(ErrorCode::kUnsupported, "{} is a big-endian GGUF file; only little-endian is supported",
         name_);
  }
  if (file_.version != 2 && file_.version != 3) {
    fail(ErrorCode::kUnsupported, "{} has GGUF version {}; versions 2 and 3 are supported", name_,
         file_.version);
  }
  tensor_count_ = in_.read<uint64_t>("the tensor count");
  key_count_ = in_.read<uint64_t>("the key count");
  if (tensor_count_ > std::min(kMaxTensors, in_.left() / kMinTensorBytes)) {
    corrupt("{} tensors are announced, more than the file can hold", tensor_count_);
  }
  if (key_count_ > std::min(kMaxKeys, in_.left() / kMinKeyBytes)) {
    corrupt("{} keys are announced, more than the file can hold", key_count_);
  }
}

std::string_view Parser::read_string(uint64_t longest, std::string_view field) {
  const auto length = in_.read<uint64_t>(field);
  if (length > std::min<uint64_t>(longest, in_.left())) {
    corrupt("{} has a string of {} bytes, but {} are left and {} allowed", field, length,
            in_.left(), longest);
  }
  const auto part = in_.take(length, field);
  return {reinterpret_cast<const char*>(part.data()), part.size()};
}

void Parser::read_metadata() {
  std::unordered_set<std::string> seen;
  file_.metadata.reserve(key_count_);
  for (uint64_t i = 0; i < key_count_; ++i) {
    const std::string key(read_string(kMaxNameLength, fmt::format("key {}", i)));
    if (key.empty()) corrupt("key {} has no name", i);
    if (!seen.insert(key).second) corrupt("key {} occurs twice", quote_name(key));
    const auto type = static_cast<ValueType>(in_.read<uint32_t>("a value type"));
    file_.metadata.emplace_back(key, read_value(type, key));
  }
}

MetaValue Parser::read_value(ValueType type, std::string_view key) {
  if (type == ValueType::kArray) return read_array(key);
  return {read_scalar(type, key)};
}

bool Parser::read_bool(std::string_view key) {
  const auto value = in_.read<uint8_t>("a truth value");
  if (value > 1) corrupt("key {} has the truth value {}, neither 0 nor 1", quote_name(key), value);
  return value == 1;
}

MetaValue::Scalar Parser::read_scalar(ValueType type, std::string_view key) {
  const auto unsigned_value = [](auto value) { return MetaValue::Scalar(uint64_t{value}); };
  const auto signed_value = [](auto value) { return MetaValue::Scalar(int64_t{value}); };
  const std::string field = "the value of key " + quote_name(key);
  switch (type) {
    case ValueType::kUint8:
      return unsigned_value(in_.read<uint8_t>(field));
    case ValueType::kInt8:
      return signed_value(in_.read<int8_t>(field));
    case ValueType::kUint16:
      return unsigned_value(in_.read<uint16_t>(field));
    case ValueType::kInt16:
      return signed_value(in_.read<int16_t>(field));
    case ValueType::kUint32:
      return unsigned_value(in_.read<uint32_t>(field));
    case ValueType::kInt32:
      return signed_value(in_.read<int32_t>(field));
    case ValueType::kUint64:
      return unsigned_value(in_.read<uint64_t>(field));
    case ValueType::kInt64:
      return signed_value(in_.read<int64_t>(field));
    case ValueType::kFloat32:
      return double{in_.read<float>(field)};
    case ValueType::kFloat64:
      return in_.read<double>(field);
    case ValueType::kBool:
      return read_bool(key);
    case ValueType::kString:
      return std::string(read_string(bytes_.size(), field));
    case ValueType::kArray:
      break;
  }
  corrupt("key {} has the unknown value type {}", quote_name(key), static_cast<uint32_t>(type));
}

template <typename Out, typename In>
MetaValue Parser::read_numbers(uint64_t count, std::string_view field) {
  const auto part = in_.take(count * sizeof(In), field);
  std::vector<Out> values(count);
  for (uint64_t i = 0; i < count; ++i) {
    In value;
    std::memcpy(&value, part.data() + i * sizeof value, sizeof value);
    values[i] = value;
  }
  return {std::move(values)};
}

MetaValue Parser::read_array(std::string_view key) {
  const auto type = static_cast<ValueType>(in_.read<uint32_t>("an array's type"));
  const auto count = in_.read<uint64_t>("an array's length");
  if (type == ValueType::kArray) {
    fail(ErrorCode::kUnsupported, "{}, byte {}: key {} is an array of arrays, not supported", name_,
         in_.offset(), quote_name(key));
  }
  const uint64_t each = value_bytes(type);
  if (each == 0) {
    corrupt("key {} is an array of the unknown type {}", quote_name(key),
            static_cast<uint32_t>(type));
  }
  if (count > std::min(kMaxArrayElements - array_elements_, in_.left() / each)) {
    corrupt("key {} is an array of {} elements, more than the file can hold or the {} allowed",
            quote_name(key), count, kMaxArrayElements);
  }
  array_elements_ += count;
  return read_elements(type, count, key);
}

MetaValue Parser::read_elements(ValueType type, uint64_t count, std::string_view key) {
  const std::string field = "the array of key " + quote_name(key);
  switch (type) {
    case ValueType::kUint8:
      return read_numbers<uint64_t, uint8_t>(count, field);
    case ValueType::kInt8:
      return read_numbers<int64_t, int8_t>(count, field);
    case ValueType::kUint16:
      return read_numbers<uint64_t, uint16_t>(count, field);
    case ValueType::kInt16:
      return read_numbers<int64_t, int16_t>(count, field);
    case ValueType::kUint32:
      return read_numbers<uint64_t, uint32_t>(count, field);
    case ValueType::kInt32:
      return read_numbers<int64_t, int32_t>(count, field);
    case ValueType::kUint64:
      return read_numbers<uint64_t, uint64_t>(count, field);
    case ValueType::kInt64:
      return read_numbers<int64_t, int64_t>(count, field);
    case ValueType::kFloat32:
      return read_numbers<double, float>(count, field);
    case ValueType::kFloat64:
      return read_numbers<double, double>(count, field);
    case ValueType::kBool: {
      std::vector<bool> values(count);
      for (uint64_t i = 0; i < count; ++i) values[i] = read_bool(key);
      return {std::move(values)};
    }
    default: {
      std::vector<std::string> values;
      values.reserve(count);
      for (uint64_t i = 0; i < count; ++i) values.emplace_back(read_string(bytes_.size(), field));
      return {std::move(values)};
    }
  }
}

void Parser::read_alignment() {
  file_.alignment = gguf::kDefaultAlignment;
  for (const auto& [key, value] : file_.metadata) {
    if (key != "general.alignment") continue;
    const auto* scalar = std::get_if<MetaValue::Scalar>(&value.value);
    const auto* number = scalar ? std::get_if<uint64_t>(scalar) : nullptr;
    if (!number || *number < 8 || *number > kMaxAlignment || !std::has_single_bit(*number)) {
      corrupt("key \"general.alignment\" is not a power of two from 8 to {}", kMaxAlignment);
    }
    file_.alignment = static_cast<int64_t>(*number);
  }
}

std::vector<int64_t> Parser::read_shape(const std::string& tensor) {
  const auto dimensions = in_.read<uint32_t>("a tensor's dimension count");
  if (dimensions > gguf::kMaxDimensions) {
    corrupt("tensor {} has {} dimensions, more than {}", quote_name(tensor), dimensions,
            gguf::kMaxDimensions);
  }
  std::vector<int64_t> shape(dimensions);
  int64_t product = 1;
  for (uint32_t d = 0; d < dimensions; ++d) {
    const auto size = in_.read<int64_t>("a tensor's dimension");
    if (size <= 0 || __builtin_mul_overflow(product, size, &product)) {
      corrupt("tensor {} has an impossible dimension {} (number {})", quote_name(tensor),
              static_cast<uint64_t>(size), d);
    }
    shape[dimensions - 1 - d] = size;  // files hold the innermost dimension first
  }
  return shape;
}

std::string supported_types() {
  std::string names;
  for (const auto& entry : gguf::kTypeIds) {
    names += (names.empty() ? "" : ", ") + std::string(dtype_name(entry.type));
  }
  return names;
}

void Parser::read_tensor() {
  TensorInfo tensor;
  tensor.name = read_string(kMaxNameLength, "a tensor's name");
  if (tensor.name.empty()) corrupt("a tensor has no name");
  if (!tensor_names_.insert(tensor.name).second)
    corrupt("tensor {} occurs twice", quote_name(tensor.name));
  tensor.shape = read_shape(tensor.name);
  const auto id = in_.read<uint32_t>("a tensor's type");
  const auto known = std::find_if(gguf::kTypeIds.begin(), gguf::kTypeIds.end(),
                                  [id](const gguf::TypeId& entry) { return entry.id == id; });
  if (known == gguf::kTypeIds.end()) {
    fail(ErrorCode::kUnsupported,
         "{}, byte {}: tensor {} uses type {}, not supported (supported are {})", name_,
         in_.offset(), quote_name(tensor.name), id, supported_types());
  }
  tensor.type = known->type;
  const int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (row % block_elements(tensor.type) != 0) {
    corrupt("tensor {} has rows of {} elements, not whole blocks of {} ({})",
            quote_name(tensor.name), row, block_elements(tensor.type), dtype_name(tensor.type));
  }
  const auto offset = in_.read<uint64_t>("a tensor's offset");
  if (offset % static_cast<uint64_t>(file_.alignment) != 0) {
    corrupt("tensor {} lies at offset {}, not a multiple of the alignment {}",
            quote_name(tensor.name), offset, file_.alignment);
  }
  offsets_.push_back(offset);
  file_.tensors.push_back(std::move(tensor));
}

void Parser::place_tensors() {
  const auto alignment = static_cast<size_t>(file_.alignment);
  const size_t start = (in_.offset() + alignment - 1) / alignment * alignment;
  const size_t data_bytes = start < bytes_.size() ? bytes_.size() - start : 0;
  for (size_t i = 0; i < file_.tensors.size(); ++i) {
    TensorInfo& tensor = file_.tensors[i];
    const int64_t elements =
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
    const std::optional<int64_t> size = byte_size(tensor.type, elements);
    if (!size || offsets_[i] > data_bytes ||
        static_cast<uint64_t>(*size) > data_bytes - offsets_[i]) {
      fail(ErrorCode::kCorrupt,
           "{} has {} bytes of tensor data, but tensor {} lies at {} and needs {}; "
           "the file is broken or was not copied as a whole",
           name_, data_bytes, quote_name(tensor.name), offsets_[i],
           size ? std::to_string(*size) : "more than 2^63");
    }
    tensor.data = bytes_.subspan(start + offsets_[i], static_cast<size_t>(*size));
  }
}

void Parser::refuse_overlaps() const {
  std::vector<const TensorInfo*> order;
  for (const TensorInfo& tensor : file_.tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return a->data.data() < b->data.data();
  });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->data.data() + order[i - 1]->data.size() > order[i]->data.data()) {
      fail(ErrorCode::kCorrupt, "{}: tensors {} and {} overlap", name_,
           quote_name(order[i - 1]->name), quote_name(order[i]->name));
    }
  }
}

}  // namespace

bool looks_like_gguf(std::span<const std::byte> bytes) {
  return bytes.size() >= gguf::kMagic.size() &&
         std::memcmp(bytes.data(), gguf::kMagic.data(), gguf::kMagic.size()) == 0;
}

GgufFile read_gguf(std::span<const std::byte> bytes, const std::string& file_name) {
  return Parser(bytes, file_name).parse();
}

}  // namespace clover
