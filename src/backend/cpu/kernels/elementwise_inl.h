// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "backend/cpu/kernels/kernels.h"

// Row-wise operations. Sums over a row run in sixteen interleaved lanes (column mod 16), then over
// the lanes in a fixed tree.
namespace clover {

template <class S>
struct Elementwise {
  using F = typename S::F;
  using I = typename S::I;

  // Sixteen values from p, of which only the first n < 16 exist; the others are `fill`.
  static inline F load_some(const float* p, int64_t n, float fill = 0.0f) {
    float lanes[16];
    for (int64_t i = 0; i < 16; ++i) lanes[i] = i < n ? p[i] : fill;
    return S::load(lanes);
  }
  static inline void store_some(float* p, int64_t n, F v) {
    float lanes[16];
    S::store(lanes, v);
    std::memcpy(p, lanes, static_cast<size_t>(n) * sizeof(float));
  }
  // The first n ≤ 16 values at p; the others are zero.
  static inline F load_up_to(const float* p, int64_t n) {
    return n == 16 ? S::load(p) : load_some(p, n);
  }
  static inline void store_up_to(float* p, int64_t n, F v) {
    if (n == 16) {
      S::store(p, v);
    } else {
      store_some(p, n, v);
    }
  }
  static inline float sum_lanes(F v) {
    float l[16];
    S::store(l, v);
    for (int width = 8; width > 0; width /= 2)
      for (int i = 0; i < width; ++i) l[i] += l[i + width];
    return l[0];
  }
  static inline float max_lanes(F v) {
    float l[16];
    S::store(l, v);
    for (int width = 8; width > 0; width /= 2)
      for (int i = 0; i < width; ++i) l[i] = l[i] > l[i + width] ? l[i] : l[i + width];
    return l[0];
  }

  // e^x: 2^n times a polynomial on [-ln2/2, ln2/2]; relative error below 2e-7. Zero below -87.
  static inline F exp(F x) {
    const F low = S::set1(-87.0f);
    const F clamped = S::max(S::min(x, S::set1(88.0f)), low);
    const F n = S::round(S::mul(clamped, S::set1(1.44269504f)));
    F r = S::fma(n, S::set1(-0.693359375f), clamped);
    r = S::fma(n, S::set1(2.12194440e-4f), r);
    F p = S::set1(1.9875691500e-4f);
    p = S::fma(p, r, S::set1(1.3981999507e-3f));
    p = S::fma(p, r, S::set1(8.3334519073e-3f));
    p = S::fma(p, r, S::set1(4.1665795894e-2f));
    p = S::fma(p, r, S::set1(1.6666665459e-1f));
    p = S::fma(p, r, S::set1(5.0000001201e-1f));
    p = S::fma(S::mul(r, r), p, S::add(r, S::set1(1.0f)));
    return S::keep_if_ge(S::mul(p, S::pow2(n)), x, low);
  }

  static void quantise(const FloatRows& x, Range rows, int64_t first_block, const QuantRows& out) {
    const int64_t blocks = x.cols / kBlockCols;
    const int64_t all_blocks = out.cols / kBlockCols;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const RowTile tile = row_tile(x.rows, r);
      const float* src = x.x + r * x.stride;
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t at =
            tile.first * all_blocks + (first_block + b) * tile.rows + (r - tile.first);
        int8_t* q = out.q + at * kBlockCols;
        const F low = S::load(src + b * kBlockCols);
        const F high = S::load(src + b * kBlockCols + 16);
        // The maximum of the bit patterns lets NaN through into the scale.
        const int32_t bits = S::reduce_max(S::max(S::abs_bits(low), S::abs_bits(high)));
        float amax;
        std::memcpy(&amax, &bits, sizeof amax);
        const float inverse = amax > 0.0f ? 127.0f / amax : 0.0f;
        const F factor = S::set1(inverse < 3.0e38f ? inverse : 0.0f);
        S::store_int8(q, S::mul(low, factor));
        S::store_int8(q + 16, S::mul(high, factor));
        // Infinity as NaN: the bytes of such a block are undefined, its results must not be.
        const float scale = amax / 127.0f;
        out.scale[at] = scale < std::numeric_limits<float>::infinity()
                            ? scale
                            : std::numeric_limits<float>::quiet_NaN();
      }
      // A loop of its own: bytes read right behind their store would wait for it.
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t at =
            tile.first * all_blocks + (first_block + b) * tile.rows + (r - tile.first);
        int32_t* halves = out.half_sums + 2 * at;
        S::half_sums(out.q + at * kBlockCols, halves);
        out.sums[at] = out.scale[at] * static_cast<float>(halves[0] + halves[1]);
      }
    }
  }

  static void rms_norm(const FloatRows& x, Range rows, const float* w, int64_t group, float eps,
                       float* out, int64_t out_stride) {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      for (int64_t g = 0; g < x.cols; g += group) {
        const float* src = x.x + r * x.stride + g;
        float* dst = out + r * out_stride + g;
        F squares = S::zero();
        int64_t c = 0;
        for (; c + 16 <= group; c += 16) {
          const F v = S::load(src + c);
          squares = S::fma(v, v, squares);
        }
        if (c < group) {
          const F v = load_some(src + c, group - c);
          squares = S::fma(v, v, squares);
        }
        const float mean = sum_lanes(squares) / static_cast<float>(group);
        const F factor = S::set1(1.0f / std::sqrt(mean + eps));
        for (c = 0; c + 16 <= group; c += 16)
          S::store(dst + c, S::mul(S::mul(S::load(src + c), factor), S::load(w + c)));
        if (c < group)
          store_some(
              dst + c, group - c,
              S::mul(S::mul(load_some(src + c, group - c), factor), load_some(w + c, group - c)));
      }
    }
  }

  static inline F silu(F x) { return S::div(x, S::add(S::set1(1.0f), exp(S::sub(S::zero(), x)))); }

  static void swiglu(const FloatRows& gates, const FloatRows& ups, Range rows, float* out,
                     int64_t out_stride) {
    const int64_t cols = gates.cols;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float* gate = gates.x + r * gates.stride;
      const float* up = ups.x + r * ups.stride;
      float* dst = out + r * out_stride;
      int64_t c = 0;
      for (; c + 16 <= cols; c += 16)
        S::store(dst + c, S::mul(silu(S::load(gate + c)), S::load(up + c)));
      if (c < cols)
        store_some(dst + c, cols - c,
                   S::mul(silu(load_some(gate + c, cols - c)), load_some(up + c, cols - c)));
    }
  }

  static void silu_rows(const FloatRows& x, const FloatRows& residual, Range rows, float* out,
                        int64_t out_stride) {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float* src = x.x + r * x.stride;
      const float* add = residual.x ? residual.x + r * residual.stride : nullptr;
      float* dst = out + r * out_stride;
      for (int64_t c = 0; c < x.cols; c += 16) {
        const int64_t n = std::min<int64_t>(16, x.cols - c);
        const F y = silu(load_up_to(src + c, n));
        store_up_to(dst + c, n, add ? S::add(load_up_to(add + c, n), y) : y);
      }
    }
  }

  // Lengths are at least 1e-8 each, so that the likeness to a zero vector is zero.
  static inline float cosine(const float* q, const float* k, int64_t n) {
    F dot = S::zero();
    F qq = S::zero();
    F kk = S::zero();
    for (int64_t c = 0; c < n; c += 16) {
      const int64_t count = std::min<int64_t>(16, n - c);
      const F a = load_up_to(q + c, count);
      const F b = load_up_to(k + c, count);
      dot = S::fma(a, b, dot);
      qq = S::fma(a, a, qq);
      kk = S::fma(b, b, kk);
    }
    const auto length = [](F squares) {
      const float root = std::sqrt(sum_lanes(squares));
      return root < 1e-8f ? 1e-8f : root;
    };
    return sum_lanes(dot) / length(qq) / length(kk);
  }

  static void cosine_gate(const GateInputs& in, Range rows, int64_t group, float* out,
                          int64_t out_stride) {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float* add = in.residual.x ? in.residual.x + r * in.residual.stride : nullptr;
      for (int64_t g = 0; g < in.q.cols; g += group) {
        const float* v = in.v.x + r * in.v.stride + g;
        const F factor =
            S::set1(cosine(in.q.x + r * in.q.stride + g, in.k.x + r * in.k.stride + g, group));
        for (int64_t c = 0; c < group; c += 16) {
          const int64_t n = std::min<int64_t>(16, group - c);
          const F gated = load_up_to(v + c, n);
          store_up_to(
              out + r * out_stride + g + c, n,
              add ? S::fma(factor, gated, load_up_to(add + g + c, n)) : S::mul(factor, gated));
        }
      }
    }
  }

  static void to_f16(const float* x, int64_t n, uint16_t* out) {
    const F high = S::set1(65504.0f);
    const F low = S::set1(-65504.0f);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) S::store(out + i, S::max(S::min(S::load(x + i), high), low));
    if (i == n) return;
    uint16_t lanes[16];
    S::store(lanes, S::max(S::min(load_some(x + i, n - i), high), low));
    std::memcpy(out + i, lanes, static_cast<size_t>(n - i) * sizeof(uint16_t));
  }

  static void chunk_max(const float* x, int64_t n, float* out) {
    const float lowest = -std::numeric_limits<float>::infinity();
    for (int64_t begin = 0; begin < n; begin += kMaxChunk) {
      const int64_t end = std::min(begin + kMaxChunk, n);
      F top = S::set1(lowest);
      int64_t i = begin;
      // NaN as the first operand gives way to the second.
      for (; i + 16 <= end; i += 16) top = S::max(S::load(x + i), top);
      if (i < end) top = S::max(load_some(x + i, end - i, lowest), top);
      *out++ = max_lanes(top);
    }
  }

  static float log_sum_exp(const float* x, int64_t n) {
    constexpr int32_t kInfinityBits = 0x7f800000;
    const float infinity = std::numeric_limits<float>::infinity();
    const float lowest = -infinity;
    F top = S::set1(lowest);
    I bits = S::set1_int(0);  // the maximum of floats passes over NaN, that of bits does not
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
      const F v = S::load(x + i);
      top = S::max(v, top);
      bits = S::max(bits, S::abs_bits(v));
    }
    if (i < n) {
      const F v = load_some(x + i, n - i, lowest);
      top = S::max(v, top);
      bits = S::max(bits, S::abs_bits(v));
    }
    if (S::reduce_max(bits) > kInfinityBits) return std::numeric_limits<float>::quiet_NaN();
    const float peak = max_lanes(top);
    if (peak == lowest || peak == infinity) return peak;
    F sum = S::zero();
    for (i = 0; i + 16 <= n; i += 16) sum = S::add(sum, exp(S::sub(S::load(x + i), S::set1(peak))));
    if (i < n) sum = S::add(sum, exp(S::sub(load_some(x + i, n - i, lowest), S::set1(peak))));
    return peak + std::log(sum_lanes(sum));
  }
};

}  // namespace clover
