// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace clover {

// Element types and quantised block formats of tensors in files. The quantised formats are those
// of GGUF; a block holds block_elements() consecutive elements of one row in block_bytes() bytes.
enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kBool,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
};

// The type's usual name, for example "Q4_1" or "BF16".
std::string_view dtype_name(DType type);

// Elements in one block: 1 for plain types, 32 or 256 for quantised ones.
int64_t block_elements(DType type);

// Bytes of one block.
int64_t block_bytes(DType type);

// True for the quantised block formats.
bool is_quantised(DType type);

// Bytes of `elements` consecutive elements, or nothing if `elements` is negative, is not a multiple
// of the block or the product does not fit in 63 bits.
std::optional<int64_t> byte_size(DType type, int64_t elements);

}  // namespace clover
