// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backend/cpu/kernels/attention_scratch.h"
#include "backend/cpu/kernels/elementwise_inl.h"
#include "backend/cpu/kernels/kernels.h"

// Attention of a tile of rows over their paths. Whatever the tile:
//   a score sums q·k over the head's dimensions in order;
//   the softmax's sum runs in sixteen lanes by logical position mod 16;
//   an output sums p·v over the logical positions in order.
// So a row's bits depend on its own path only: a tree node equals the same path as a chain.
namespace clover {

template <class S, typename T>  // T: uint16_t (float16) or float
struct Attention {
  using F = typename S::F;
  using E = Elementwise<S>;

  static const T* key_block(const KvHeadView& kv, int64_t block) {
    return reinterpret_cast<const T*>(kv.keys + kv.blocks[block] * kv.block_bytes_k);
  }
  static const T* value_row(const KvHeadView& kv, int64_t slot) {
    const auto* base =
        reinterpret_cast<const T*>(kv.values + kv.blocks[slot / 16] * kv.block_bytes_v);
    return base + (slot % 16) * kv.value_stride;
  }
  static const float* query(const AttentionTile& t, int64_t vector) {
    return t.q + (vector / t.heads) * t.q_stride + (vector % t.heads) * t.kv.head_dim;
  }

  // Blocks are short and lie apart, so the hardware's prefetcher is of little help: what is needed
  // next is asked for while a block is worked on. Measured with eight sequences of 200 tokens: a
  // step takes 7.1 ms without, 6.5 ms with it.
  static constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));  // elements

  // Scores of Q query vectors against NB blocks of sixteen keys ([head_dim][16] each); `ahead` are
  // the blocks that come next.
  template <int Q, int NB>
  static inline __attribute__((always_inline)) void score_blocks(const float* const* q,
                                                                 const T* const* keys,
                                                                 const T* const* ahead,
                                                                 int64_t head_dim,
                                                                 float* const* scores) {
    F acc[Q][NB];
#pragma GCC unroll 8
    for (int i = 0; i < Q; ++i)
#pragma GCC unroll 8
      for (int n = 0; n < NB; ++n) acc[i][n] = S::zero();
    for (int64_t d = 0; d < head_dim; ++d) {
      F k[NB];
#pragma GCC unroll 8
      for (int n = 0; n < NB; ++n) k[n] = S::load(keys[n] + d * 16);
      if (d * 16 % kLine == 0) {
#pragma GCC unroll 8
        for (int n = 0; n < NB; ++n) S::prefetch(ahead[n] + d * 16);
      }
#pragma GCC unroll 8
      for (int i = 0; i < Q; ++i) {
        const F value = S::set1(q[i][d]);
#pragma GCC unroll 8
        for (int n = 0; n < NB; ++n) acc[i][n] = S::fma(value, k[n], acc[i][n]);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < Q; ++i)
#pragma GCC unroll 8
      for (int n = 0; n < NB; ++n) S::store(scores[i] + n * 16, acc[i][n]);
  }

  template <int Q, int NB>
  static void score_group(const AttentionTile& t, int64_t vector, Range blocks, float* probs,
                          int64_t length) {
    const float* q[Q];
    float* scores[Q];
    for (int i = 0; i < Q; ++i) q[i] = query(t, vector + i);
    // Behind the last keys come the first values.
    const auto next = [&](int64_t block) {
      if (block < blocks.end) return key_block(t.kv, block);
      const int64_t first = blocks.begin + block - blocks.end;
      return value_row(t.kv, (first < blocks.end ? first : blocks.end - 1) * 16);
    };
    int64_t b = blocks.begin;
    for (; b + NB <= blocks.end; b += NB) {
      const T* keys[NB];
      const T* ahead[NB];
      for (int n = 0; n < NB; ++n) {
        keys[n] = key_block(t.kv, b + n);
        ahead[n] = next(b + NB + n);
      }
      for (int i = 0; i < Q; ++i) scores[i] = probs + (vector + i) * length + b * 16;
      score_blocks<Q, NB>(q, keys, ahead, t.kv.head_dim, scores);
    }
    for (; b < blocks.end; ++b) {
      const T* keys[1] = {key_block(t.kv, b)};
      const T* ahead[1] = {next(b + 1)};
      for (int i = 0; i < Q; ++i) scores[i] = probs + (vector + i) * length + b * 16;
      score_blocks<Q, 1>(q, keys, ahead, t.kv.head_dim, scores);
    }
  }

  static void linear_scores(const AttentionTile& t, const AttentionScratch& s, int64_t first_key,
                            float* probs) {
    const Range blocks{first_key / 16, (s.linear + 15) / 16};
    int64_t v = 0;
    for (; v + 8 <= s.vectors; v += 8) score_group<8, 2>(t, v, blocks, probs, s.length);
    for (; v + 4 <= s.vectors; v += 4) score_group<4, 3>(t, v, blocks, probs, s.length);
    for (; v + 3 <= s.vectors; v += 3) score_group<3, 4>(t, v, blocks, probs, s.length);
    for (; v + 2 <= s.vectors; v += 2) score_group<2, 4>(t, v, blocks, probs, s.length);
    for (; v < s.vectors; ++v) score_group<1, 8>(t, v, blocks, probs, s.length);
  }

  // Scores of every vector against every tail slot of the tile, sixteen gathered keys at a time.
  static void tail_scores(const AttentionTile& t, const AttentionScratch& s, float* scores,
                          T* gathered) {
    const int64_t first = t.tail_begin[0];
    const int64_t count = t.tail_begin[t.rows] - first;
    for (int64_t base = 0; base < count; base += 16) {
      for (int64_t lane = 0; lane < 16; ++lane) {
        const int64_t slot = t.tail[first + (base + lane < count ? base + lane : base)];
        const T* block = key_block(t.kv, slot / 16) + slot % 16;
        for (int64_t d = 0; d < t.kv.head_dim; ++d) gathered[d * 16 + lane] = block[d * 16];
      }
      const T* keys[1] = {gathered};
      for (int64_t v = 0; v < s.vectors; ++v) {
        const float* q[1] = {query(t, v)};
        float* out[1] = {scores + v * s.tail_slots + base};
        score_blocks<1, 1>(q, keys, keys, t.kv.head_dim, out);
      }
    }
  }

  // Turns the scores of positions [start, len) of one vector into exp(score - max); everything else
  // within whole sixteens becomes 0. Returns 1 / sum.
  static float softmax(float* p, int64_t start, int64_t len, float scale, const float* slope) {
    const float lowest = -std::numeric_limits<float>::infinity();
    const int64_t first = start / 16 * 16;
    const int64_t padded = (len + 15) / 16 * 16;
    for (int64_t i = first; i < start; ++i) p[i] = lowest;
    for (int64_t i = len; i < padded; ++i) p[i] = lowest;
    const F factor = S::set1(scale);
    F top = S::set1(lowest);
    for (int64_t i = first; i < padded; i += 16) {
      F v = S::mul(S::load(p + i), factor);
      if (slope) {
        float distance[16];
        for (int64_t lane = 0; lane < 16; ++lane)
          distance[lane] = static_cast<float>(i + lane - (len - 1));
        v = S::fma(S::set1(*slope), S::load(distance), v);
      }
      S::store(p + i, v);
      top = S::max(v, top);
    }
    const F peak = S::set1(E::max_lanes(top));
    F sum = S::zero();
    for (int64_t i = first; i < padded; i += 16) {
      const F e = E::exp(S::sub(S::load(p + i), peak));
      S::store(p + i, e);
      sum = S::add(sum, e);
    }
    return 1.0f / E::sum_lanes(sum);
  }

  // acc[i] += p[i][position] * value(position) over linear positions, for Q vectors and N
  // sixteens of the head's dimensions from `d`. Accumulators live in the output rows.
  template <int Q, int N>
  static inline __attribute__((always_inline)) void add_values(const AttentionTile& t,
                                                               float* const* out,
                                                               const float* const* p,
                                                               Range positions, int64_t d) {
    F acc[Q][N];
#pragma GCC unroll 8
    for (int i = 0; i < Q; ++i)
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) acc[i][n] = S::load(out[i] + d + n * 16);
    for (int64_t pos = positions.begin; pos < positions.end;) {
      const int64_t stop =
          (pos / 16 + 1) * 16 < positions.end ? (pos / 16 + 1) * 16 : positions.end;
      const T* row = value_row(t.kv, pos) + d;
      const T* ahead = stop < positions.end ? value_row(t.kv, stop) + d : row;
      for (; pos < stop; ++pos, row += t.kv.value_stride, ahead += t.kv.value_stride) {
#pragma GCC unroll 4
        for (int64_t at = 0; at < N * 16; at += kLine) S::prefetch(ahead + at);
        F v[N];
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) v[n] = S::load(row + n * 16);
#pragma GCC unroll 8
        for (int i = 0; i < Q; ++i) {
          const F weight = S::set1(p[i][pos]);
#pragma GCC unroll 8
          for (int n = 0; n < N; ++n) acc[i][n] = S::fma(weight, v[n], acc[i][n]);
        }
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < Q; ++i)
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) S::store(out[i] + d + n * 16, acc[i][n]);
  }

  template <int Q>
  static void values_group(const AttentionTile& t, float* const* out, const float* const* p,
                           Range positions) {
    int64_t d = 0;
    for (; d + 64 <= t.kv.value_stride; d += 64) add_values<Q, 4>(t, out, p, positions, d);
    for (; d < t.kv.value_stride; d += 16) add_values<Q, 1>(t, out, p, positions, d);
  }

  static void tail_values(const AttentionTile& t, float* out, const float* p, int64_t row) {
    const int64_t first = t.linear_len[row];
    for (int64_t i = t.tail_begin[row]; i < t.tail_begin[row + 1]; ++i) {
      const T* v = value_row(t.kv, t.tail[i]);
      const F weight = S::set1(p[first + i - t.tail_begin[row]]);
      for (int64_t d = 0; d < t.kv.value_stride; d += 16)
        S::store(out + d, S::fma(weight, S::load(v + d), S::load(out + d)));
    }
  }

  // First position that a row with a path of `len` sees.
  static int64_t start_of(const AttentionTile& t, int64_t len) {
    return t.window > 0 && len > t.window ? len - t.window : 0;
  }

  static void values(const AttentionTile& t, const AttentionScratch& s, int64_t first_key,
                     float* probs, const float* inverse, float* acc) {
    int64_t common = s.linear;
    for (int64_t r = 0; r < t.rows; ++r)
      common = t.linear_len[r] < common ? t.linear_len[r] : common;
    const int64_t stride = t.kv.value_stride;
    std::memset(acc, 0, static_cast<size_t>(s.vectors * stride) * sizeof(float));
    const Range all{first_key, common};
    int64_t v = 0;
    const auto group = [&]<int Q>(std::integral_constant<int, Q>) {
      float* out[Q];
      const float* p[Q];
      for (int i = 0; i < Q; ++i) {
        out[i] = acc + (v + i) * stride;
        p[i] = probs + (v + i) * s.length;
      }
      values_group<Q>(t, out, p, all);
      v += Q;
    };
    // Six at a time share what they load best; seven and eight are halved.
    while (v < s.vectors) {
      const int64_t left = s.vectors - v;
      if (left == 6 || left > 8) {
        group(std::integral_constant<int, 6>{});
      } else if (left >= 4) {
        group(std::integral_constant<int, 4>{});
      } else if (left == 3) {
        group(std::integral_constant<int, 3>{});
      } else if (left == 2) {
        group(std::integral_constant<int, 2>{});
      } else {
        group(std::integral_constant<int, 1>{});
      }
    }
    for (v = 0; v < s.vectors; ++v) {
      float* out[1] = {acc + v * stride};
      const float* p[1] = {probs + v * s.length};
      const int64_t row = v / t.heads;
      values_group<1>(t, out, p, {common > first_key ? common : first_key, t.linear_len[row]});
      tail_values(t, out[0], p[0], row);
      float* dst = t.out + row * t.out_stride + (v % t.heads) * t.kv.head_dim;
      for (int64_t d = 0; d < t.kv.head_dim; ++d) dst[d] = out[0][d] * inverse[v];
    }
  }

  // scratch: attention_scratch(t) floats, divided as AttentionScratch says.
  static void run(const AttentionTile& t, float* scratch) {
    const AttentionScratch s(t);
    float* probs = scratch;
    float* tails = probs + s.vectors * s.length;
    float* gathered = tails + s.vectors * s.tail_slots;
    float* inverse = gathered + t.kv.head_dim * 16;
    float* acc = inverse + s.vectors;
    int64_t first_key = s.linear;
    for (int64_t r = 0; r < t.rows; ++r) {
      const int64_t start = start_of(t, t.linear_len[r] + t.tail_begin[r + 1] - t.tail_begin[r]);
      first_key = start < first_key ? start : first_key;
    }
    linear_scores(t, s, first_key, probs);
    if (s.tail_slots > 0) tail_scores(t, s, tails, reinterpret_cast<T*>(gathered));
    for (int64_t v = 0; v < s.vectors; ++v) {
      const int64_t row = v / t.heads;
      const int64_t tail = t.tail_begin[row + 1] - t.tail_begin[row];
      const int64_t len = t.linear_len[row] + tail;
      float* p = probs + v * s.length;
      for (int64_t i = 0; i < tail; ++i)
        p[t.linear_len[row] + i] =
            tails[v * s.tail_slots + t.tail_begin[row] - t.tail_begin[0] + i];
      const int64_t start = start_of(t, len);
      // Positions that other rows of the tile see but this one does not weigh nothing, nor do those
      // of its own tail that lie before its window.
      const int64_t first_seen = first_key / 16 * 16;
      const int64_t first = first_seen < t.linear_len[row] ? first_seen : t.linear_len[row];
      for (int64_t i = first; i < start / 16 * 16; ++i) p[i] = 0.0f;
      inverse[v] = softmax(p, start, len, t.scale, t.alibi ? t.alibi + v % t.heads : nullptr);
    }
    values(t, s, first_key, probs, inverse, acc);
  }
};

}  // namespace clover
