// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "checkpoint/names.h"

namespace clover {
namespace {

// A tensor's description takes about 120 bytes, so this is room for 130,000 tensors a file.
constexpr uint64_t kMaxHeader = 16 << 20;
constexpr int kMaxHeaderDepth = 4;
constexpr size_t kMaxDimensions = 8;

// In these the file's name is also dtype_name().
constexpr std::array kTypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64,
                               DType::kI32, DType::kI16, DType::kI8,  DType::kU8,   DType::kBool};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& file_name)
      : bytes_(bytes), name_(file_name) {}

  SafetensorsFile parse() {
    const Json header = read_header();
    for (const auto& [key, value] : header.items()) {
      if (key == "__metadata__") {
        read_metadata(value);
      } else {
        read_tensor(key, value);
      }
    }
    std::stable_sort(
        file_.tensors.begin(), file_.tensors.end(),
        [](const TensorInfo& a, const TensorInfo& b) { return a.data.data() < b.data.data(); });
    check_cover();
    return std::move(file_);
  }

 private:
  Json read_header();
  void read_metadata(const Json& value);
  void read_tensor(const std::string& tensor_name, const Json& value);
  DType read_dtype(const std::string& tensor, const Json& value) const;
  std::vector<int64_t> read_shape(const std::string& tensor, const Json& value) const;
  void check_cover() const;

  template <typename... Args>
  [[noreturn]] void corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kCorrupt, "{}: {}", name_, fmt::format(format, std::forward<Args>(args)...));
  }

  std::span<const std::byte> bytes_;
  std::string name_;
  std::span<const std::byte> data_;  // what follows the header
  SafetensorsFile file_;
};

Json Parser::read_header() {
  ByteReader in(bytes_, name_);
  const auto length = in.read<uint64_t>("the header's length");
  if (length < 2 || length > in.left() || length > kMaxHeader) {
    corrupt("the header is said to have {} bytes; {} are left and {} allowed", length, in.left(),
            kMaxHeader);
  }
  const auto text = in.take(length, "the header");
  data_ = bytes_.subspan(in.offset());
  Json header = parse_json({reinterpret_cast<const char*>(text.data()), text.size()},
                           name_ + ", header", kMaxHeaderDepth);
  if (!header.is_object()) corrupt("the header is not a JSON object");
  return header;
}

void Parser::read_metadata(const Json& value) {
  if (!value.is_object()) corrupt("\"__metadata__\" is not an object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) corrupt("\"__metadata__\" entry {} is not a string", quote_name(key));
    file_.metadata.emplace_back(key, text.get<std::string>());
  }
}

DType Parser::read_dtype(const std::string& tensor, const Json& value) const {
  const auto member = value.find("dtype");
  if (member == value.end() || !member->is_string()) {
    corrupt("tensor {} has no \"dtype\"", quote_name(tensor));
  }
  const auto& text = member->get_ref<const std::string&>();
  const std::optional<DType> type = safetensors_dtype(text);
  if (!type) {
    fail(ErrorCode::kUnsupported, "{}: tensor {} uses type {}, not supported (supported are {})",
         name_, quote_name(tensor), quote_name(text), safetensors_dtype_names());
  }
  return *type;
}

std::vector<int64_t> Parser::read_shape(const std::string& tensor, const Json& value) const {
  const auto member = value.find("shape");
  if (member == value.end() || !member->is_array() || member->size() > kMaxDimensions) {
    corrupt("tensor {} has no \"shape\" of at most {} dimensions", quote_name(tensor),
            kMaxDimensions);
  }
  std::vector<int64_t> shape;
  for (const Json& size : *member) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > INT64_MAX) {
      corrupt("tensor {} has the impossible dimension {}", quote_name(tensor),
              quote_name(size.dump()));
    }
    shape.push_back(size.get<int64_t>());
  }
  return shape;
}

void Parser::read_tensor(const std::string& tensor_name, const Json& value) {
  if (tensor_name.empty() || !value.is_object()) {
    corrupt("tensor {} is not described by an object", quote_name(tensor_name));
  }
  TensorInfo tensor;
  tensor.name = tensor_name;
  tensor.type = read_dtype(tensor_name, value);
  tensor.shape = read_shape(tensor_name, value);
  int64_t elements = 1;
  for (const int64_t size : tensor.shape) {
    if (__builtin_mul_overflow(elements, size, &elements)) {
      corrupt("tensor {} has more than 2^63 elements", quote_name(tensor_name));
    }
  }
  const std::optional<int64_t> size = byte_size(tensor.type, elements);
  const auto range = value.find("data_offsets");
  if (range == value.end() || !range->is_array() || range->size() != 2 ||
      !(*range)[0].is_number_unsigned() || !(*range)[1].is_number_unsigned()) {
    corrupt("tensor {} has no \"data_offsets\" of two numbers", quote_name(tensor_name));
  }
  const auto begin = (*range)[0].get<uint64_t>();
  const auto end = (*range)[1].get<uint64_t>();
  if (begin > end || end > data_.size()) {
    corrupt("tensor {} claims bytes {} to {} of the {} after the header", quote_name(tensor_name),
            begin, end, data_.size());
  }
  if (!size || static_cast<uint64_t>(*size) != end - begin) {
    corrupt("tensor {} has {} bytes, but its shape and type {} need {}", quote_name(tensor_name),
            end - begin, dtype_name(tensor.type), size ? std::to_string(*size) : "over 2^63");
  }
  tensor.data = data_.subspan(begin, end - begin);
  file_.tensors.push_back(std::move(tensor));
}

void Parser::check_cover() const {
  const std::byte* next = data_.data();
  const std::string* before = nullptr;
  for (const TensorInfo& tensor : file_.tensors) {
    if (tensor.data.empty()) continue;
    const auto gap = tensor.data.data() - next;
    if (gap < 0) corrupt("tensors {} and {} overlap", quote_name(*before), quote_name(tensor.name));
    if (gap > 0) corrupt("{} unused bytes lie before tensor {}", gap, quote_name(tensor.name));
    next = tensor.data.data() + tensor.data.size();
    before = &tensor.name;
  }
  const auto rest = data_.data() + data_.size() - next;
  if (rest > 0) {
    corrupt("{} unused bytes lie after tensor {}", rest, before ? quote_name(*before) : "\"\"");
  }
}

}  // namespace

std::optional<DType> safetensors_dtype(std::string_view name) {
  for (const DType type : kTypes) {
    if (dtype_name(type) == name) return type;
  }
  return std::nullopt;
}

std::string safetensors_dtype_names() {
  std::string names;
  for (const DType type : kTypes) {
    names += (names.empty() ? "" : ", ") + std::string(dtype_name(type));
  }
  return names;
}

SafetensorsFile read_safetensors(std::span<const std::byte> bytes, const std::string& file_name) {
  return Parser(bytes, file_name).parse();
}

}  // namespace clover
