// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace clover {

// How a package stores a matrix in 8 bits: integers under its own name (I8, [rows, cols]), and for
// every 32 of a row their scale under NAME.scales (F16, [rows, cols / 32]); a value is the product.
// These are the numbers of Q8_0, so a matrix that runs in Q8_0 is the same from the file.
struct Int8Matrix {
  std::vector<std::byte> integers;
  std::vector<std::byte> scales;
};

// Whether a tensor of that shape can be stored so: it has rows of a multiple of 32 values.
bool fits_int8(const std::vector<int64_t>& shape);

// Name and shape of the scales of a matrix that can.
std::string scales_name(std::string_view matrix);
std::vector<int64_t> scales_shape(const std::vector<int64_t>& matrix);

// Error(kInvalidArgument) for values that are not finite or too large for the scales.
Int8Matrix to_int8(std::span<const float> values);

// The values of integers [rows, cols] and their scales, whose types and shapes have been checked.
std::vector<float> from_int8(const TensorInfo& integers, const TensorInfo& scales);

}  // namespace clover
