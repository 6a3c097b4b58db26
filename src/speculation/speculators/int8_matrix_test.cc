// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/int8_matrix.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tensor/quant.h"
#include "tensor/quantise.h"

namespace clover {
namespace {

std::vector<float> values_of(const Int8Matrix& matrix, int64_t rows, int64_t cols) {
  return from_int8({"m", DType::kI8, {rows, cols}, matrix.integers},
                   {"m.scales", DType::kF16, scales_shape({rows, cols}), matrix.scales});
}

// Rows of very different sizes, one of zeros, one whose largest value is negative.
std::vector<float> mixed_values() {
  std::vector<float> values;
  for (size_t row = 0; row < 64; ++row) {
    for (size_t i = 0; i < 96; ++i) {
      const auto noise = static_cast<float>((row * 7919 + i * 104729) % 1999) / 999.0f - 1.0f;
      values.push_back(row == 5 ? 0.0f : noise * std::ldexp(1.0f, static_cast<int>(row % 24) - 14));
    }
  }
  values[7 * 96] = -100.0f;
  return values;
}

TEST(Int8Matrix, ItsValuesAreThoseOfQ8_0) {
  const std::vector<float> values = mixed_values();
  const auto count = static_cast<int64_t>(values.size());
  const std::vector<std::byte> blocks = quantise(DType::kQ8_0, values.data(), count);
  std::vector<float> expected(values.size());
  dequantise(DType::kQ8_0, blocks.data(), count, expected.data());
  EXPECT_EQ(values_of(to_int8(values), 64, 96), expected);
}

// What was read runs as what was trained, and is written as it was.
TEST(Int8Matrix, QuantisedAgainNothingChanges) {
  const Int8Matrix once = to_int8(mixed_values());
  const Int8Matrix twice = to_int8(values_of(once, 64, 96));
  EXPECT_EQ(once.integers, twice.integers);
  EXPECT_EQ(once.scales, twice.scales);
}

TEST(Int8Matrix, OnlyMatricesOfWholeBlocksFit) {
  EXPECT_TRUE(fits_int8({3, 64}));
  EXPECT_FALSE(fits_int8({3, 65}));
  EXPECT_FALSE(fits_int8({3, 0}));
  EXPECT_FALSE(fits_int8({64}));
  EXPECT_FALSE(fits_int8({2, 2, 32}));
  EXPECT_EQ(scales_shape({3, 64}), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(scales_name("a.weight"), "a.weight.scales");
}

}  // namespace
}  // namespace clover
