// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace clover {

using Metadata = std::vector<std::pair<std::string, MetaValue>>;

// The content of one GGUF file. Tensor data points into the bytes that were read.
struct GgufFile {
  uint32_t version = 0;
  int64_t alignment = 0;
  Metadata metadata;                // in file order
  std::vector<TensorInfo> tensors;  // in file order
};

// Reads a GGUF file (version 2 or 3, little endian) from memory; `file_name` names it in errors.
// Every count and length is held against the bytes that are left before anything is allocated, so
// a hostile file costs memory in proportion to its own size. Keys and tensor names are unique and
// tensors lie inside the file without overlapping. Errors: kCorrupt with the byte offset and the
// key or tensor; kUnsupported for other versions, big-endian files, nested arrays and tensor types
// that Clover does not know.
GgufFile read_gguf(std::span<const std::byte> bytes, const std::string& file_name);

// True when the bytes begin as a GGUF file does.
bool looks_like_gguf(std::span<const std::byte> bytes);

}  // namespace clover
