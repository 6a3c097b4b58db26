// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The machine's limits, for benchmarks: loops that do nothing but read or multiply.
namespace clover {

template <class S>
struct Peak {
  using F = typename S::F;
  using I = typename S::I;
  static constexpr int kChains = 12;  // hides the latency of two multipliers

  static int32_t read_memory(const uint8_t* p, int64_t n) {
    I sum[4];
    for (I& lane : sum) lane = S::set1_int(0);
    static constexpr int8_t kOnes[4] = {1, 1, 1, 1};
    for (int64_t i = 0; i < n; i += 256) {
#pragma GCC unroll 4
      for (int64_t line = 0; line < 4; ++line) {
        S::prefetch(p + i + 4096 + 64 * line);
        sum[line] = S::dot4(sum[line], S::load_codes(p + i + 64 * line), kOnes);
      }
    }
    return S::reduce_add(S::add(S::add(sum[0], sum[1]), S::add(sum[2], sum[3])));
  }

  static int64_t peak_int8(int64_t rounds, int32_t* sink) {
    alignas(64) uint8_t codes[64];
    for (int i = 0; i < 64; ++i) codes[i] = static_cast<uint8_t>(i % 16);
    const int8_t ones[4] = {1, 1, 1, 1};
    const auto c = S::load_codes(codes);
    I acc[kChains];
    for (I& lane : acc) lane = S::set1_int(0);
    for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
      for (int k = 0; k < kChains; ++k) acc[k] = S::dot4_nibbles(acc[k], c, ones);
    }
    for (int k = 0; k < kChains; ++k) *sink += S::reduce_add(acc[k]);
    return rounds * kChains * 64;
  }

  static int64_t peak_float(int64_t rounds, float* sink) {
    const F a = S::set1(0.5f);
    F acc[kChains];
    for (F& lane : acc) lane = S::set1(1.0f);
    for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
      for (int k = 0; k < kChains; ++k) acc[k] = S::fma(acc[k], a, a);
    }
    float lanes[16];
    for (int k = 0; k < kChains; ++k) {
      S::store(lanes, acc[k]);
      *sink += lanes[0];
    }
    return rounds * kChains * 16;
  }
};

}  // namespace clover
