// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "tensor/quant.h"

// Sixteen lanes in plain C++: the definition of what every kernel computes. The other instruction
// sets give the same bits, since each operation below is exactly rounded or exact in integers.
namespace clover {

struct SimdReference {
  struct F {
    float v[16];
  };
  struct I {
    int32_t v[16];
  };
  // 64 bytes: lane o holds four unsigned codes of output o.
  struct U {
    uint8_t v[64];
  };

  template <typename Op>
  static F map(Op op) {
    F r;
    for (int i = 0; i < 16; ++i) r.v[i] = op(i);
    return r;
  }

  static F zero() { return set1(0.0f); }
  static F set1(float x) {
    return map([&](int) { return x; });
  }
  static F load(const float* p) {
    return map([&](int i) { return p[i]; });
  }
  static void store(float* p, F a) { std::memcpy(p, a.v, sizeof a.v); }
  static F load(const uint16_t* p) {  // float16
    return map([&](int i) { return f16_to_f32(p[i]); });
  }
  static void store(uint16_t* p, F a) {
    for (int i = 0; i < 16; ++i) p[i] = f32_to_f16(a.v[i]);
  }
  static F load_bf16(const uint16_t* p) {
    return map([&](int i) { return bf16_to_f32(p[i]); });
  }
  static F add(F a, F b) {
    return map([&](int i) { return a.v[i] + b.v[i]; });
  }
  static F sub(F a, F b) {
    return map([&](int i) { return a.v[i] - b.v[i]; });
  }
  static F mul(F a, F b) {
    return map([&](int i) { return a.v[i] * b.v[i]; });
  }
  static F div(F a, F b) {
    return map([&](int i) { return a.v[i] / b.v[i]; });
  }
  static F fma(F a, F b, F c) {
    return map([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
  }
  // As the x86 instruction: b where either is NaN.
  static F max(F a, F b) {
    return map([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  static F min(F a, F b) {
    return map([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  // a where x >= limit, else +0.
  static F keep_if_ge(F a, F x, F limit) {
    return map([&](int i) { return x.v[i] >= limit.v[i] ? a.v[i] : 0.0f; });
  }
  static F round(F a) {  // to nearest, ties to even
    return map([&](int i) { return std::nearbyintf(a.v[i]); });
  }
  // 2^n for integral n in [-126, 127].
  static F pow2(F n) {
    return map([&](int i) {
      const uint32_t bits = static_cast<uint32_t>(static_cast<int32_t>(n.v[i]) + 127) << 23;
      float r;
      std::memcpy(&r, &bits, sizeof r);
      return r;
    });
  }
  // Bits of |a| as an integer: ordered as the magnitudes, NaN above infinity.
  static I abs_bits(F a) {
    I r;
    std::memcpy(r.v, a.v, sizeof r.v);
    for (int32_t& x : r.v) x &= 0x7fffffff;
    return r;
  }
  static I max(I a, I b) {
    for (int i = 0; i < 16; ++i) a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
    return a;
  }
  static int32_t reduce_max(I a) {
    int32_t r = a.v[0];
    for (int32_t x : a.v) r = x > r ? x : r;
    return r;
  }
  static int32_t reduce_add(I a) {
    int32_t r = 0;
    for (int32_t x : a.v) r += x;
    return r;
  }
  static I set1_int(int32_t x) {
    I r;
    for (int32_t& lane : r.v) lane = x;
    return r;
  }
  static I add(I a, I b) {
    for (int i = 0; i < 16; ++i) a.v[i] += b.v[i];
    return a;
  }
  static F to_float(I a) {
    return map([&](int i) { return static_cast<float>(a.v[i]); });
  }
  // Nearest integers (ties to even) of values known to lie in [-127, 127] (anything for NaN),
  // stored as bytes.
  static void store_int8(int8_t* p, F a) {
    for (int i = 0; i < 16; ++i) {
      const float x = std::nearbyintf(a.v[i]);
      p[i] = x >= -127.0f && x <= 127.0f ? static_cast<int8_t>(x) : int8_t{0};
    }
  }
  // Sums of the first and of the second 16 of 32 bytes.
  static void half_sums(const int8_t* p, int32_t* sums) {
    sums[0] = sums[1] = 0;
    for (int i = 0; i < 32; ++i) sums[i / 16] += p[i];
  }

  static U load_codes(const uint8_t* p) {
    U r;
    std::memcpy(r.v, p, sizeof r.v);
    return r;
  }
  static U low_nibbles(U a) {
    for (uint8_t& x : a.v) x &= 15;
    return a;
  }
  static U high_nibbles(U a) {
    for (uint8_t& x : a.v) x = static_cast<uint8_t>(x >> 4);
    return a;
  }
  // acc[o] += sum of codes[o][j] * x[j] over the four signed bytes at x; exact.
  static I dot4(I acc, U codes, const int8_t* x) {
    for (int o = 0; o < 16; ++o)
      for (int j = 0; j < 4; ++j) acc.v[o] += codes.v[4 * o + j] * x[j];
    return acc;
  }
  static I dot4_nibbles(I acc, U codes, const int8_t* x) { return dot4(acc, codes, x); }
  static void prefetch(const void*) {}      // into the first-level cache
  static void prefetch_far(const void*) {}  // into the second-level cache
};

}  // namespace clover
