// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace clover {

// exp and log in plain float arithmetic. libm is avoided for two reasons: its last bits differ
// between versions and machines, which would make the drawn text depend on them, and a loop that
// calls it cannot be vectorised. Both functions are within 1e-6 of the true value, relatively.

// Two parts of ln 2: the first has so few bits that its product with an exponent is exact.
inline constexpr float kLn2High = 0.693359375f;
inline constexpr float kLn2Low = -2.12194440e-4f;

// exp(x); 0 below -87 (where the result leaves the normal range), defined for x ≤ 88 and -inf.
inline float approx_exp(float x) {
  constexpr float kSmallest = -87.0f;
  // Adding 1.5 * 2^23 leaves round(x / ln 2) in the low bits of the sum.
  constexpr float kRound = 12582912.0f;
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;  // |r| ≤ ln 2 / 2
  // Taylor series; the first term left out is r^7/5040 ≤ 1.3e-7.
  float p = 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const uint32_t power = (std::bit_cast<uint32_t>(shifted) << 23) + 0x3f800000u;  // 2^n
  const float y = p * std::bit_cast<float>(power);
  // A mask, since a branch around float arithmetic would keep the loop from being vectorised.
  const uint32_t keep = 0u - static_cast<uint32_t>(x >= kSmallest);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(y) & keep);
}

// log(1 + f) = 2 artanh(f / (2 + f)) for f in [-0.3, 0.42]; keeps the relative precision at f near
// 0.
inline float approx_log1p_small(float f) {
  const float s = f / (2.0f + f);
  const float q = s * s;  // ≤ 0.031: the first term left out is 4e-8 of the result
  float p = 1.0f / 9.0f;
  p = p * q + 1.0f / 7.0f;
  p = p * q + 0.2f;
  p = p * q + 1.0f / 3.0f;
  return 2.0f * s + 2.0f * s * (q * p);
}

// log(x) for normal x > 0.
inline float approx_log(float x) {
  constexpr uint32_t kSqrtHalf = 0x3f3504f3u;
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const int32_t e = static_cast<int32_t>(bits - kSqrtHalf) >> 23;
  const float m = std::bit_cast<float>(bits - (static_cast<uint32_t>(e) << 23));  // [√½, √2)
  const float n = static_cast<float>(e);
  return n * kLn2High + (n * kLn2Low + approx_log1p_small(m - 1.0f));
}

}  // namespace clover
