// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

// Sixteen lanes as two AVX2 registers. See simd_reference.h for what each operation means.
namespace clover {

struct SimdAvx2 {
#define CLOVER_INLINE static inline __attribute__((always_inline))
  struct F {
    __m256 a, b;
  };
  struct I {
    __m256i a, b;
  };
  struct U {
    __m256i a, b;
  };

  CLOVER_INLINE F zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  CLOVER_INLINE F set1(float x) {
    const __m256 v = _mm256_set1_ps(x);
    return {v, v};
  }
  CLOVER_INLINE F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  CLOVER_INLINE void store(float* p, F x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
  }
  CLOVER_INLINE F load(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
  }
  CLOVER_INLINE void store(uint16_t* p, F x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8),
                     _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
  }
  CLOVER_INLINE __m256 widen_bf16(const uint16_t* p) {
    const __m256i wide =
        _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
  CLOVER_INLINE F load_bf16(const uint16_t* p) { return {widen_bf16(p), widen_bf16(p + 8)}; }
  CLOVER_INLINE F add(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  CLOVER_INLINE F sub(F x, F y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
  CLOVER_INLINE F mul(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  CLOVER_INLINE F div(F x, F y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  CLOVER_INLINE F fma(F x, F y, F z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }
  CLOVER_INLINE F max(F x, F y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
  CLOVER_INLINE F min(F x, F y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
  CLOVER_INLINE F keep_if_ge(F v, F x, F limit) {
    return {_mm256_and_ps(v.a, _mm256_cmp_ps(x.a, limit.a, _CMP_GE_OQ)),
            _mm256_and_ps(v.b, _mm256_cmp_ps(x.b, limit.b, _CMP_GE_OQ))};
  }
  CLOVER_INLINE F round(F x) {
    constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.a, kMode), _mm256_round_ps(x.b, kMode)};
  }
  CLOVER_INLINE __m256 pow2_half(__m256 n) {
    const __m256i biased = _mm256_add_epi32(_mm256_cvttps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
  }
  CLOVER_INLINE F pow2(F n) { return {pow2_half(n.a), pow2_half(n.b)}; }
  CLOVER_INLINE I abs_bits(F x) {
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    return {_mm256_and_si256(_mm256_castps_si256(x.a), mask),
            _mm256_and_si256(_mm256_castps_si256(x.b), mask)};
  }
  CLOVER_INLINE I max(I x, I y) { return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
  CLOVER_INLINE int32_t reduce_max(I x) {
    const __m256i m = _mm256_max_epi32(x.a, x.b);
    __m128i h = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0xb1));
    return _mm_cvtsi128_si32(h);
  }
  CLOVER_INLINE int32_t reduce_add(I x) {
    const __m256i m = _mm256_add_epi32(x.a, x.b);
    __m128i h = _mm_add_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0xb1));
    return _mm_cvtsi128_si32(h);
  }
  CLOVER_INLINE I set1_int(int32_t x) {
    const __m256i v = _mm256_set1_epi32(x);
    return {v, v};
  }
  CLOVER_INLINE I add(I x, I y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
  CLOVER_INLINE F to_float(I x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
  CLOVER_INLINE void store_int8(int8_t* p, F x) {
    const __m256i packed = _mm256_packs_epi32(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b));
    const __m256i words = _mm256_permute4x64_epi64(packed, 0xd8);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
  }
  CLOVER_INLINE void half_sums(const int8_t* p, int32_t* sums) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i fours =
        _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes), _mm256_set1_epi16(1));
    const __m128i pairs =
        _mm_hadd_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(sums), _mm_hadd_epi32(pairs, pairs));
  }

  CLOVER_INLINE U load_codes(const uint8_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
  }
  CLOVER_INLINE U low_nibbles(U x) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask)};
  }
  CLOVER_INLINE U high_nibbles(U x) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(_mm256_srli_epi16(x.a, 4), mask),
            _mm256_and_si256(_mm256_srli_epi16(x.b, 4), mask)};
  }
  CLOVER_INLINE __m256i broadcast4(const int8_t* x) {
    int32_t word;
    std::memcpy(&word, x, sizeof word);
    return _mm256_set1_epi32(word);
  }
  // Codes below 16: pairs of products fit in 16 bits.
  CLOVER_INLINE I dot4_nibbles(I acc, U codes, const int8_t* x) {
    const __m256i xs = broadcast4(x);
    const __m256i ones = _mm256_set1_epi16(1);
    return {_mm256_add_epi32(acc.a, _mm256_madd_epi16(_mm256_maddubs_epi16(codes.a, xs), ones)),
            _mm256_add_epi32(acc.b, _mm256_madd_epi16(_mm256_maddubs_epi16(codes.b, xs), ones))};
  }
  // 8-bit codes would saturate the 16-bit pairs, so they are taken as two nibbles: low + 16 high.
  CLOVER_INLINE I dot4(I acc, U codes, const int8_t* x) {
    const __m256i xs = broadcast4(x);
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i sixteen = _mm256_set1_epi16(16);
    const U low = low_nibbles(codes);
    const U high = high_nibbles(codes);
    acc.a = _mm256_add_epi32(acc.a, _mm256_madd_epi16(_mm256_maddubs_epi16(low.a, xs), ones));
    acc.b = _mm256_add_epi32(acc.b, _mm256_madd_epi16(_mm256_maddubs_epi16(low.b, xs), ones));
    acc.a = _mm256_add_epi32(acc.a, _mm256_madd_epi16(_mm256_maddubs_epi16(high.a, xs), sixteen));
    acc.b = _mm256_add_epi32(acc.b, _mm256_madd_epi16(_mm256_maddubs_epi16(high.b, xs), sixteen));
    return acc;
  }
  CLOVER_INLINE void prefetch(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
  }
  CLOVER_INLINE void prefetch_far(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
  }
#undef CLOVER_INLINE
};

}  // namespace clover
