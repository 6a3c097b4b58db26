// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/int8_matrix.h"

#include <cstdint>

#include "tensor/quant.h"
#include "tensor/quantise.h"

namespace clover {
namespace {

constexpr size_t kBlock = 32;      // values of a block of Q8_0, which has its scale first
constexpr size_t kScaleBytes = 2;  // float16

}  // namespace

std::string scales_name(std::string_view matrix) { return std::string(matrix) + ".scales"; }

std::vector<int64_t> scales_shape(const std::vector<int64_t>& matrix) {
  return {matrix.front(), matrix.back() / static_cast<int64_t>(kBlock)};
}

bool fits_int8(const std::vector<int64_t>& shape) {
  return shape.size() == 2 && shape.back() > 0 && shape.back() % static_cast<int64_t>(kBlock) == 0;
}

Int8Matrix to_int8(std::span<const float> values) {
  const std::vector<std::byte> blocks =
      quantise(DType::kQ8_0, values.data(), static_cast<int64_t>(values.size()));
  Int8Matrix matrix;
  matrix.integers.reserve(values.size());
  matrix.scales.reserve(values.size() / kBlock * kScaleBytes);
  for (size_t at = 0; at < blocks.size(); at += kScaleBytes + kBlock) {
    const auto scale = blocks.begin() + static_cast<int64_t>(at);
    const auto integers = scale + static_cast<int64_t>(kScaleBytes);
    matrix.scales.insert(matrix.scales.end(), scale, integers);
    matrix.integers.insert(matrix.integers.end(), integers,
                           integers + static_cast<int64_t>(kBlock));
  }
  return matrix;
}

std::vector<float> from_int8(const TensorInfo& integers, const TensorInfo& scales) {
  std::vector<float> values(integers.data.size());
  std::vector<float> factors(values.size() / kBlock);
  dequantise(DType::kF16, scales.data.data(), static_cast<int64_t>(factors.size()), factors.data());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = factors[i / kBlock] * static_cast<float>(static_cast<int8_t>(integers.data[i]));
  return values;
}

}  // namespace clover
