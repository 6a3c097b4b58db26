// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace clover {

// IEEE half and bfloat16 to float and back (round to nearest even; NaN stays NaN).
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);

// Converts `n` elements of a float, half, bfloat16 or quantised row to float32.
// `n` must be a multiple of block_elements(type) and `src` hold byte_size(type, n) bytes.
// The arithmetic is that of the GGUF formats' definition (the `gguf` Python package), in float32.
void dequantise(DType type, const std::byte* src, int64_t n, float* out);

// How a quantised format looks once its packing is undone: groups of `group` consecutive elements
// share a scale and a minimum, and element = scale * (code - offset) + min.
struct GroupFormat {
  int group;      // 16 or 32 elements
  int code_bits;  // 4: codes are 0…15; 8: codes are 0…255
  int offset;     // subtracted from every code (0 where has_min)
  bool has_min;   // false: every minimum is 0
};

// The group format of a quantised type. Types without one (plain floats) are an
// Error(kUnsupported).
GroupFormat group_format(DType type);

// Undoes the packing of `n` elements (a multiple of block_elements(type)):
// codes[n], scales[n / group], mins[n / group] (mins may be null when !has_min).
// Exact: scales and minima are the float32 products that dequantise() uses.
void unpack_groups(DType type, const std::byte* src, int64_t n, uint8_t* codes, float* scales,
                   float* mins);

}  // namespace clover
