// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

namespace clover {

// Four lanes side by side, for reductions over floats: the compiler may not reorder a running sum
// or maximum, so it has to be told which lanes are independent. A compiler extension that GCC and
// Clang share, available on every target; what a lane computes is ordinary arithmetic.
using Float4 [[gnu::vector_size(16)]] = float;
using Int4 [[gnu::vector_size(16)]] = int32_t;

inline Float4 load4(const float* x) {
  Float4 v;
  std::memcpy(&v, x, sizeof v);
  return v;
}

// The greater value; `b` where `a` is NaN.
inline Float4 max4(Float4 a, Float4 b) { return a > b ? a : b; }

inline float max_lane(Float4 v) {
  const float low = v[0] > v[1] ? v[0] : v[1];
  const float high = v[2] > v[3] ? v[2] : v[3];
  return low > high ? low : high;
}
// Whether a comparison holds in any lane.
inline bool any_lane(Int4 mask) {
  uint64_t halves[2];
  std::memcpy(halves, &mask, sizeof halves);
  return (halves[0] | halves[1]) != 0;
}

inline float sum_lanes(Float4 v) { return (v[0] + v[2]) + (v[1] + v[3]); }

}  // namespace clover
