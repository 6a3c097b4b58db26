// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tensor/quant.h"

namespace clover {
namespace {

// The definition of a half, in doubles.
double half_value(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) {
    return mantissa ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Half, EveryHalfConvertsExactlyAndBack) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float value = f16_to_f32(bits);
    const double expected = half_value(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << i;
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value)))) << i;
      continue;
    }
    ASSERT_EQ(value, expected) << i;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << i;
    ASSERT_EQ(f32_to_f16(value), bits) << i;
  }
}

// Between each pair of neighbouring halves: just below, at and just above the middle.
TEST(Half, RoundsToNearestEvenBetweenAllNeighbours) {
  for (uint16_t low = 0; low < 0x7c00; ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    const double upper = high == 0x7c00 ? 65536.0 : half_value(high);  // where infinity begins
    const auto middle = static_cast<float>((half_value(low) + upper) / 2);
    const uint16_t even = low & 1 ? high : low;
    ASSERT_EQ(f32_to_f16(middle), even) << low;
    ASSERT_EQ(f32_to_f16(std::nextafterf(middle, 0.0f)), low) << low;
    ASSERT_EQ(f32_to_f16(std::nextafterf(middle, INFINITY)), high) << low;
    ASSERT_EQ(f32_to_f16(-middle), even | 0x8000) << low;
  }
}

TEST(Half, ExtremesOfFloat) {
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(f32_to_f16(-INFINITY), 0xfc00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(f32_to_f16(-std::numeric_limits<float>::min()), 0x8000);
}

TEST(Bfloat16, EveryValueConvertsExactlyAndBack) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float value = bf16_to_f32(bits);
    ASSERT_EQ(std::bit_cast<uint32_t>(value), i << 16);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(value)))) << i;
    } else {
      ASSERT_EQ(f32_to_bf16(value), bits);
    }
  }
}

TEST(Bfloat16, RoundsToNearestEvenBetweenAllNeighbours) {
  for (uint32_t low = 0; low < 0x7f80; ++low) {
    const uint32_t middle = (low << 16) | 0x8000;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(middle)), low + (low & 1)) << low;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(middle - 1)), low) << low;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(middle + 1)), low + 1) << low;
  }
  // A NaN whose payload lies only in the bits cut off stays a NaN.
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace clover
