// SPDX-License-Identifier: Apache-2.0
#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <set>
#include <string_view>

namespace clover {
namespace {

TEST(DTypeTable, NamesAreDistinctAndBlocksPositive) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(DType::kIQ4_NL); ++i) {
    const auto type = static_cast<DType>(i);
    EXPECT_TRUE(names.insert(dtype_name(type)).second) << dtype_name(type);
    EXPECT_GT(block_bytes(type), 0);
    EXPECT_EQ(is_quantised(type), block_elements(type) > 1);
  }
  EXPECT_EQ(dtype_name(DType::kQ4_1), "Q4_1");
  EXPECT_EQ(dtype_name(DType::kBF16), "BF16");
}

TEST(DTypeTable, ByteSize) {
  EXPECT_EQ(byte_size(DType::kF32, 3), 12);
  EXPECT_EQ(byte_size(DType::kQ4_1, 64), 40);
  EXPECT_EQ(byte_size(DType::kQ6_K, 256), 210);
  EXPECT_EQ(byte_size(DType::kQ4_K, 0), 0);
}

// F1: products must not wrap.
TEST(DTypeTable, ByteSizeRefusesWhatDoesNotFit) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(byte_size(DType::kF32, -1), std::nullopt);
  EXPECT_EQ(byte_size(DType::kQ4_0, 33), std::nullopt);
  EXPECT_EQ(byte_size(DType::kQ4_K, 32), std::nullopt);
  EXPECT_EQ(byte_size(DType::kF64, kMax / 8 + 1), std::nullopt);
  EXPECT_EQ(byte_size(DType::kF64, kMax / 8), kMax / 8 * 8);
  EXPECT_EQ(byte_size(DType::kU8, kMax), kMax);
}

}  // namespace
}  // namespace clover
