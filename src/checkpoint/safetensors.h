// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace clover {

// The content of one safetensors file. Tensor data points into the bytes that were read and may
// lie at any address.
struct SafetensorsFile {
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<TensorInfo> tensors;  // by position in the file
};

// Reads a safetensors file from memory; `file_name` names it in errors. The header is at most
// 16 MiB; the tensors' ranges must match shape and type and cover the rest of the file without
// overlap or hole. Errors: kCorrupt and, for element types without a DType, kUnsupported; both
// name the tensor.
SafetensorsFile read_safetensors(std::span<const std::byte> bytes, const std::string& file_name);

// The element type of a safetensors name such as "BF16", or nothing.
std::optional<DType> safetensors_dtype(std::string_view name);

// "F64, F32, …": the names safetensors_dtype() knows.
std::string safetensors_dtype_names();

}  // namespace clover
