// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

// Sixteen lanes in one AVX-512 register, with VNNI. See simd_reference.h for what each operation
// means.
namespace clover {

struct SimdAvx512 {
#define CLOVER_INLINE static inline __attribute__((always_inline))
  using F = __m512;
  struct I {
    __m512i v;
  };
  struct U {
    __m512i v;
  };

  CLOVER_INLINE F zero() { return _mm512_setzero_ps(); }
  CLOVER_INLINE F set1(float x) { return _mm512_set1_ps(x); }
  CLOVER_INLINE F load(const float* p) { return _mm512_loadu_ps(p); }
  CLOVER_INLINE void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  CLOVER_INLINE F load(const uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  CLOVER_INLINE void store(uint16_t* p, F x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
  CLOVER_INLINE F load_bf16(const uint16_t* p) {
    const __m512i wide =
        _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
  }
  CLOVER_INLINE F add(F x, F y) { return _mm512_add_ps(x, y); }
  CLOVER_INLINE F sub(F x, F y) { return _mm512_sub_ps(x, y); }
  CLOVER_INLINE F mul(F x, F y) { return _mm512_mul_ps(x, y); }
  CLOVER_INLINE F div(F x, F y) { return _mm512_div_ps(x, y); }
  CLOVER_INLINE F fma(F x, F y, F z) { return _mm512_fmadd_ps(x, y, z); }
  CLOVER_INLINE F max(F x, F y) { return _mm512_max_ps(x, y); }
  CLOVER_INLINE F min(F x, F y) { return _mm512_min_ps(x, y); }
  CLOVER_INLINE F keep_if_ge(F v, F x, F limit) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_GE_OQ), v);
  }
  CLOVER_INLINE F round(F x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  CLOVER_INLINE F pow2(F n) {
    const __m512i biased = _mm512_add_epi32(_mm512_cvttps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23));
  }
  CLOVER_INLINE I abs_bits(F x) {
    return {_mm512_and_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff))};
  }
  CLOVER_INLINE I max(I x, I y) { return {_mm512_max_epi32(x.v, y.v)}; }
  CLOVER_INLINE int32_t reduce_max(I x) { return _mm512_reduce_max_epi32(x.v); }
  CLOVER_INLINE int32_t reduce_add(I x) { return _mm512_reduce_add_epi32(x.v); }
  CLOVER_INLINE I set1_int(int32_t x) { return {_mm512_set1_epi32(x)}; }
  CLOVER_INLINE I add(I x, I y) { return {_mm512_add_epi32(x.v, y.v)}; }
  CLOVER_INLINE F to_float(I x) { return _mm512_cvtepi32_ps(x.v); }
  CLOVER_INLINE void store_int8(int8_t* p, F x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x)));
  }
  CLOVER_INLINE void half_sums(const int8_t* p, int32_t* sums) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i fours = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), bytes);
    const __m128i pairs =
        _mm_hadd_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(sums), _mm_hadd_epi32(pairs, pairs));
  }

  CLOVER_INLINE U load_codes(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  CLOVER_INLINE U low_nibbles(U x) { return {_mm512_and_si512(x.v, _mm512_set1_epi8(15))}; }
  CLOVER_INLINE U high_nibbles(U x) {
    return {_mm512_and_si512(_mm512_srli_epi16(x.v, 4), _mm512_set1_epi8(15))};
  }
  CLOVER_INLINE I dot4(I acc, U codes, const int8_t* x) {
    int32_t word;
    std::memcpy(&word, x, sizeof word);
    return {_mm512_dpbusd_epi32(acc.v, codes.v, _mm512_set1_epi32(word))};
  }
  CLOVER_INLINE I dot4_nibbles(I acc, U codes, const int8_t* x) { return dot4(acc, codes, x); }
  CLOVER_INLINE void prefetch(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
  }
  CLOVER_INLINE void prefetch_far(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
  }
#undef CLOVER_INLINE
};

}  // namespace clover
