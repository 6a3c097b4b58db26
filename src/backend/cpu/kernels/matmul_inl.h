// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "backend/cpu/kernels/kernels.h"

// y = x Wᵀ over panels of 16 outputs. Any number of rows goes through tiles of 8 and one of the
// rest, whose sums run in the same order, so a row's bits do not depend on its neighbours.
namespace clover {

template <class S>
struct Matmul {
  using F = typename S::F;
  using I = typename S::I;
  using U = typename S::U;

  // Adds bias and residual and stores 16 outputs (fewer in a partly filled last panel).
  static inline void finish(F acc, const PanelView& w, int64_t panel, int64_t row,
                            const MatmulOut& out) {
    const int64_t first = panel * kPanelRows;
    const int64_t valid = w.rows - first < kPanelRows ? w.rows - first : kPanelRows;
    float* y = out.y + row * out.stride + first;
    if (valid == kPanelRows) {
      if (out.bias) acc = S::add(acc, S::load(out.bias + first));
      if (out.residual)
        acc = S::add(acc, S::load(out.residual + row * out.residual_stride + first));
      S::store(y, acc);
      return;
    }
    float lanes[kPanelRows];
    S::store(lanes, acc);
    for (int64_t o = 0; o < valid; ++o) {
      float value = lanes[o];
      if (out.bias) value += out.bias[first + o];
      if (out.residual) value += out.residual[row * out.residual_stride + first + o];
      y[o] = value;
    }
  }

  template <bool kNibble>
  static inline __attribute__((always_inline)) U codes_of(const uint8_t* block, int g) {
    if constexpr (kNibble) {
      return g < 4 ? S::low_nibbles(S::load_codes(block + 64 * g))
                   : S::high_nibbles(S::load_codes(block + 64 * (g - 4)));
    } else {
      return S::load_codes(block + 64 * g);
    }
  }

  // The activations of one tile of R rows.
  template <int R>
  struct Tile {
    const int8_t* q;           // [blocks][R][32]
    const float* scale;        // [blocks][R]
    const int32_t* half_sums;  // [blocks][R][2]
    const float* sums;         // [blocks][R]
    Tile(const QuantRows& x, int64_t row) {
      const int64_t blocks = x.cols / kBlockCols;
      q = x.q + row * x.cols;
      scale = x.scale + row * blocks;
      half_sums = x.half_sums + row * blocks * 2;
      sums = x.sums + row * blocks;
    }
    void next() {
      q += R * kBlockCols;
      scale += R;
      half_sums += R * 2;
      sums += R;
    }
  };

  // A step over few rows waits for memory, and the hardware's own prefetcher stops at every page:
  // weights are asked into the second-level cache kFar bytes before they are needed and into the
  // first kNear bytes before. Measured: 10 % faster than one distance of 2 to 12 KiB.
  static constexpr int64_t kNear = 1280;
  static constexpr int64_t kFar = 8192;

  // Adds block part `kPart` (inputs that share a weight scale) to the sums of R rows:
  //   acc = fma(integer dot product, weight scale * activation scale, acc)
  //   acc = fma(weight minimum, activation scale * activation sum, acc)
  template <int R, bool kNibble, int kGroup, bool kMin, int kPart>
  static inline __attribute__((always_inline)) void block_part(const uint8_t* codes, F sw, F mw,
                                                               const Tile<R>& x, int offset,
                                                               const uint8_t* ahead, F* acc) {
    constexpr int kLines = (kNibble ? 5 : 9);
    constexpr int kParts = 32 / kGroup;
    constexpr int kGroups = 8 / kParts;  // groups of 4 inputs per scale
    // Few rows would leave a chain of sums waiting for itself: theirs are split in two. Sums of
    // integers do not depend on their order.
    constexpr int kChains = R <= 2 ? 2 : 1;
    I dot[kChains * R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      if constexpr (kMin) {
        dot[r] = S::set1_int(0);
      } else {
        const int32_t* s = x.half_sums + r * 2;
        dot[r] = S::set1_int(-offset * (kParts == 1 ? s[0] + s[1] : s[kPart]));
      }
      if constexpr (kChains == 2) dot[R + r] = S::set1_int(0);
    }
#pragma GCC unroll 8
    for (int g = kPart * kGroups; g < (kPart + 1) * kGroups; ++g) {
      const U c = codes_of<kNibble>(codes, g);
      if (ahead) {
#pragma GCC unroll 2
        for (int line = g; line < kLines; line += 8) {
          S::prefetch(ahead + kNear + 64 * line);
          S::prefetch_far(ahead + kFar + 64 * line);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const int8_t* xs = x.q + r * kBlockCols + 4 * g;
        I& sum = dot[g % kChains * R + r];
        sum = kNibble ? S::dot4_nibbles(sum, c, xs) : S::dot4(sum, c, xs);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      if constexpr (kChains == 2) dot[r] = S::add(dot[r], dot[R + r]);
      acc[r] = S::fma(S::to_float(dot[r]), S::mul(sw, S::set1(x.scale[r])), acc[r]);
      if constexpr (kMin && kParts == 1) {
        acc[r] = S::fma(mw, S::set1(x.sums[r]), acc[r]);
      } else if constexpr (kMin) {
        const auto sum = static_cast<float>(x.half_sums[r * 2 + kPart]);
        acc[r] = S::fma(mw, S::set1(x.scale[r] * sum), acc[r]);
      }
    }
  }

  template <int R, bool kNibble, int kGroup, bool kMin>
  static inline __attribute__((always_inline)) void block(const uint8_t* codes,
                                                          const uint8_t* scales, const Tile<R>& x,
                                                          int offset, const uint8_t* ahead,
                                                          F* acc) {
    constexpr int64_t kScaleBytes = 32 / kGroup * kPanelRows * 2;
    const auto* sw = reinterpret_cast<const uint16_t*>(scales);
    const auto* mw = reinterpret_cast<const uint16_t*>(kMin ? scales + 2 * kScaleBytes : scales);
    block_part<R, kNibble, kGroup, kMin, 0>(codes, S::load(sw), S::load(mw), x, offset, ahead, acc);
    if constexpr (kGroup == 16)
      block_part<R, kNibble, kGroup, kMin, 1>(codes, S::load(sw + kPanelRows),
                                              S::load(mw + kPanelRows), x, offset, ahead, acc);
  }

  // A panel, R rows from `row`; `prefetch` on the first tile that passes over the panel.
  template <int R, bool kNibble, int kGroup, bool kMin>
  static inline __attribute__((always_inline)) void quantised_tile(
      const PanelView& w, int64_t panel, const QuantRows& rows, int64_t row, const MatmulOut& out,
      bool prefetch) {
    constexpr int64_t kCodeBytes = kNibble ? 256 : 512;
    constexpr int64_t kScaleBytes = 32 / kGroup * kPanelRows * 2;
    constexpr int64_t kPairBytes = 2 * (kCodeBytes + kScaleBytes * (kMin ? 2 : 1));
    const int64_t blocks = rows.cols / kBlockCols;
    const uint8_t* pair = w.data + panel * w.panel_bytes;
    Tile<R> x(rows, row);
    F acc[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) acc[r] = S::zero();
    for (int64_t b = 0; b < blocks; b += 2, pair += kPairBytes) {
      block<R, kNibble, kGroup, kMin>(pair, pair + 2 * kCodeBytes, x, w.offset,
                                      prefetch ? pair : nullptr, acc);
      x.next();
      if (b + 1 == blocks) break;
      block<R, kNibble, kGroup, kMin>(pair + kCodeBytes, pair + 2 * kCodeBytes + kScaleBytes, x,
                                      w.offset, prefetch ? pair + kPairBytes / 2 : nullptr, acc);
      x.next();
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) finish(acc[r], w, panel, row + r, out);
  }

  template <int R, bool kNibble, int kGroup, bool kMin>
  static inline __attribute__((always_inline)) void quantised_strip(const PanelView& w,
                                                                    Range panels,
                                                                    const QuantRows& x, int64_t row,
                                                                    const MatmulOut& out,
                                                                    bool prefetch) {
    for (int64_t p = panels.begin; p < panels.end; ++p)
      quantised_tile<R, kNibble, kGroup, kMin>(w, p, x, row, out, prefetch);
  }

  // The last `count` ≤ R rows, as one tile.
  template <int R, bool kNibble, int kGroup, bool kMin>
  static inline __attribute__((always_inline)) void rest_strip(const PanelView& w, Range panels,
                                                               const QuantRows& x, int64_t row,
                                                               const MatmulOut& out,
                                                               int64_t count) {
    if constexpr (R > 0) {
      if (count == R) {
        quantised_strip<R, kNibble, kGroup, kMin>(w, panels, x, row, out, row == 0);
      } else {
        rest_strip<R - 1, kNibble, kGroup, kMin>(w, panels, x, row, out, count);
      }
    }
  }

  template <bool kNibble, int kGroup, bool kMin>
  static void quantised_panels(const PanelView& w, Range panels, const QuantRows& x,
                               const MatmulOut& out) {
    // 64 rows of activations stay in the cache while the panels stream by.
    constexpr int64_t kRowBlock = 64;
    for (int64_t begin = 0; begin < x.rows; begin += kRowBlock) {
      const int64_t end = begin + kRowBlock < x.rows ? begin + kRowBlock : x.rows;
      for (int64_t p = panels.begin; p < panels.end; p += 2) {
        const Range strip{p, p + 2 < panels.end ? p + 2 : panels.end};
        int64_t r = begin;
        for (; r + 8 <= end; r += 8)
          quantised_strip<8, kNibble, kGroup, kMin>(w, strip, x, r, out, r == 0);
        rest_strip<7, kNibble, kGroup, kMin>(w, strip, x, r, out, end - r);
      }
    }
  }

  static void quantised(const PanelView& w, Range panels, const QuantRows& x,
                        const MatmulOut& out) {
    const bool nibble = w.kind == PanelKind::kNibbles;
    if (nibble && w.group == 32 && w.has_min)
      return quantised_panels<true, 32, true>(w, panels, x, out);
    if (nibble && w.group == 32) return quantised_panels<true, 32, false>(w, panels, x, out);
    if (nibble && w.has_min) return quantised_panels<true, 16, true>(w, panels, x, out);
    if (nibble) return quantised_panels<true, 16, false>(w, panels, x, out);
    if (w.group == 32 && w.has_min) return quantised_panels<false, 32, true>(w, panels, x, out);
    if (w.group == 32) return quantised_panels<false, 32, false>(w, panels, x, out);
    if (w.has_min) return quantised_panels<false, 16, true>(w, panels, x, out);
    return quantised_panels<false, 16, false>(w, panels, x, out);
  }

  template <PanelKind kKind>
  static inline __attribute__((always_inline)) F weights_at(const uint8_t* panel, int64_t k) {
    if constexpr (kKind == PanelKind::kF32) {
      return S::load(reinterpret_cast<const float*>(panel) + k * kPanelRows);
    } else if constexpr (kKind == PanelKind::kF16) {
      return S::load(reinterpret_cast<const uint16_t*>(panel) + k * kPanelRows);
    } else {
      return S::load_bf16(reinterpret_cast<const uint16_t*>(panel) + k * kPanelRows);
    }
  }

  // P panels, R rows; every sum runs over the inputs in order.
  template <PanelKind kKind, int R, int P>
  static inline __attribute__((always_inline)) void float_tile(const PanelView& w, int64_t panel,
                                                               const FloatRows& x, int64_t row,
                                                               const MatmulOut& out) {
    const uint8_t* data = w.data + panel * w.panel_bytes;
    F acc[P][R];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p)
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) acc[p][r] = S::zero();
    const float* xs = x.x + row * x.stride;
    for (int64_t k = 0; k < x.cols; ++k) {
      F weights[P];
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) weights[p] = weights_at<kKind>(data + p * w.panel_bytes, k);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const F value = S::set1(xs[r * x.stride + k]);
#pragma GCC unroll 8
        for (int p = 0; p < P; ++p) acc[p][r] = S::fma(value, weights[p], acc[p][r]);
      }
    }
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p)
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) finish(acc[p][r], w, panel + p, row + r, out);
  }

  // Several panels at once hide the latency of the running sums where there are few rows.
  template <PanelKind kKind, int R, int P>
  static void float_strip(const PanelView& w, Range panels, const FloatRows& x, int64_t row,
                          const MatmulOut& out) {
    int64_t p = panels.begin;
    for (; p + P <= panels.end; p += P) float_tile<kKind, R, P>(w, p, x, row, out);
    for (; p < panels.end; ++p) float_tile<kKind, R, 1>(w, p, x, row, out);
  }

  template <PanelKind kKind>
  static void float_panels(const PanelView& w, Range panels, const FloatRows& x,
                           const MatmulOut& out) {
    // A few panels at a time stay in the cache while all rows pass.
    constexpr int64_t kPanelBlock = 4;
    for (int64_t p = panels.begin; p < panels.end; p += kPanelBlock) {
      const Range part{p, p + kPanelBlock < panels.end ? p + kPanelBlock : panels.end};
      int64_t r = 0;
      for (; r + 8 <= x.rows; r += 8) float_strip<kKind, 8, 2>(w, part, x, r, out);
      if (r + 4 <= x.rows) {
        float_strip<kKind, 4, 4>(w, part, x, r, out);
        r += 4;
      }
      if (r + 2 <= x.rows) {
        float_strip<kKind, 2, 4>(w, part, x, r, out);
        r += 2;
      }
      if (r < x.rows) float_strip<kKind, 1, 4>(w, part, x, r, out);
    }
  }

  static void floats(const PanelView& w, Range panels, const FloatRows& x, const MatmulOut& out) {
    switch (w.kind) {
      case PanelKind::kF16:
        return float_panels<PanelKind::kF16>(w, panels, x, out);
      case PanelKind::kBF16:
        return float_panels<PanelKind::kBF16>(w, panels, x, out);
      default:
        return float_panels<PanelKind::kF32>(w, panels, x, out);
    }
  }
};

}  // namespace clover
