// SPDX-License-Identifier: Apache-2.0
// Formats whose block is a super-block of 256 elements with scales of their own: Q2_K … Q6_K.
#include "tensor/quant_blocks.h"

namespace clover {
namespace {

constexpr int kSuper = 256;

// 64 bytes of 2-bit codes: each half of 32 bytes holds 4 runs of 32 elements, lowest bits first.
void unpack_two_bits(const uint8_t* packed, uint8_t* codes) {
  for (int run = 0; run < 8; ++run) {
    const uint8_t* bytes = packed + (run / 4) * 32;
    const int shift = (run % 4) * 2;
    for (int i = 0; i < 32; ++i) codes[run * 32 + i] = (bytes[i] >> shift) & 3;
  }
}

// 128 bytes of 4-bit codes: each 32 bytes hold a run of 32 low nibbles, then one of high nibbles.
void unpack_four_bits(const uint8_t* packed, uint8_t* codes) {
  for (int run = 0; run < 8; ++run) {
    const uint8_t* bytes = packed + (run / 2) * 32;
    const int shift = (run % 2) * 4;
    for (int i = 0; i < 32; ++i) codes[run * 32 + i] = (bytes[i] >> shift) & 15;
  }
}

// Bit `run` of byte i belongs to element run * 32 + i; it is added at `position`.
void add_bit_plane(const uint8_t* plane, int position, uint8_t* codes) {
  for (int run = 0; run < 8; ++run) {
    for (int i = 0; i < 32; ++i) {
      const int bit = (plane[i] >> run) & 1;
      codes[run * 32 + i] = static_cast<uint8_t>(codes[run * 32 + i] | (bit << position));
    }
  }
}

// Eight 6-bit scales and minima in 12 bytes: the first four of each lie in bytes 0…7; the last four
// have their low nibbles in bytes 8…11 and their upper two bits on top of bytes 0…7.
void unpack_scales_and_mins(const uint8_t* block, float* scales, float* mins) {
  const float d = load_f16(block);
  const float d_min = load_f16(block + 2);
  const uint8_t* packed = block + 4;
  for (int i = 0; i < 4; ++i) {
    const int scale_low = packed[i] & 63;
    const int min_low = packed[i + 4] & 63;
    const int scale_high = (packed[i + 8] & 15) | ((packed[i] >> 2) & 0x30);
    const int min_high = (packed[i + 8] >> 4) | ((packed[i + 4] >> 2) & 0x30);
    scales[i] = d * static_cast<float>(scale_low);
    scales[i + 4] = d * static_cast<float>(scale_high);
    mins[i] = -(d_min * static_cast<float>(min_low));
    mins[i + 4] = -(d_min * static_cast<float>(min_high));
  }
}

}  // namespace

void unpack_q2_k(const uint8_t* block, uint8_t* codes, float* scales, float* mins) {
  const float d = load_f16(block + 80);
  const float d_min = load_f16(block + 82);
  for (int g = 0; g < 16; ++g) {
    scales[g] = d * static_cast<float>(block[g] & 15);
    mins[g] = -(d_min * static_cast<float>(block[g] >> 4));
  }
  unpack_two_bits(block + 16, codes);
}

void unpack_q3_k(const uint8_t* block, uint8_t* codes, float* scales, float*) {
  const float d = load_f16(block + 108);
  const uint8_t* packed = block + 96;
  for (int g = 0; g < 16; ++g) {
    const int low = (packed[g % 8] >> (g / 8 * 4)) & 15;
    const int high = (packed[8 + g % 4] >> (g / 4 * 2)) & 3;
    scales[g] = d * static_cast<float>((low | (high << 4)) - 32);
  }
  unpack_two_bits(block + 32, codes);
  add_bit_plane(block, 2, codes);
}

void unpack_q4_k(const uint8_t* block, uint8_t* codes, float* scales, float* mins) {
  unpack_scales_and_mins(block, scales, mins);
  unpack_four_bits(block + 16, codes);
}

void unpack_q5_k(const uint8_t* block, uint8_t* codes, float* scales, float* mins) {
  unpack_scales_and_mins(block, scales, mins);
  unpack_four_bits(block + 48, codes);
  add_bit_plane(block + 16, 4, codes);
}

void unpack_q6_k(const uint8_t* block, uint8_t* codes, float* scales, float*) {
  const uint8_t* high = block + 128;
  const auto* group_scales = reinterpret_cast<const int8_t*>(block + 192);
  const float d = load_f16(block + 208);
  for (int g = 0; g < 16; ++g) scales[g] = d * static_cast<float>(group_scales[g]);
  for (int run = 0; run < kSuper / 32; ++run) {
    const int half = run / 4;
    const uint8_t* low_bytes = block + half * 64 + (run % 2) * 32;
    const uint8_t* high_bytes = high + half * 32;
    const int low_shift = (run % 4) / 2 * 4;
    const int high_shift = (run % 4) * 2;
    for (int i = 0; i < 32; ++i) {
      const int low = (low_bytes[i] >> low_shift) & 15;
      const int top = (high_bytes[i] >> high_shift) & 3;
      codes[run * 32 + i] = static_cast<uint8_t>(low | (top << 4));
    }
  }
}

}  // namespace clover
