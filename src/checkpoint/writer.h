// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace clover {

// Both writers take tensors whose data has exactly byte_size(type, product of shape) bytes and
// whose names are unique and not empty, else Error(kInvalidArgument) naming the tensor. The file
// appears under its name only when it is complete and on the disk. Errors: kIo, kExhausted (disk
// full).

// Writes a safetensors file. Types with wider elements come first, so that every tensor is aligned
// to its element; otherwise the order given is kept. Block-quantised types are
// Error(kUnsupported).
void write_safetensors(const std::string& path, std::span<const TensorInfo> tensors,
                       const std::vector<std::pair<std::string, std::string>>& metadata);

// Writes a GGUF file, version 3. Every number is stored in the narrowest of UINT32/UINT64,
// INT32/INT64 or FLOAT32/FLOAT64 that holds it (an array: all its elements) without loss, which is
// what other readers of the usual keys expect. A key "general.alignment" is obeyed; the default is
// 32. Types U8 and BOOL do not exist in GGUF: Error(kUnsupported).
void write_gguf(const std::string& path,
                const std::vector<std::pair<std::string, MetaValue>>& metadata,
                std::span<const TensorInfo> tensors);

}  // namespace clover
