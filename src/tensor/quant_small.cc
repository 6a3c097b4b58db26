// SPDX-License-Identifier: Apache-2.0
// Formats whose block is one group of 32 elements: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL.
#include "tensor/quant_blocks.h"

namespace clover {
namespace {

constexpr int kHalf = 16;  // the low nibbles hold elements 0…15, the high ones 16…31

// The 16 levels of IQ4_NL (fixed by the format), plus 128.
constexpr uint8_t kNonLinear[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                    129, 141, 153, 166, 181, 197, 217, 241};

void unpack_nibbles(const uint8_t* packed, uint8_t* codes) {
  for (int i = 0; i < kHalf; ++i) {
    codes[i] = packed[i] & 15;
    codes[i + kHalf] = packed[i] >> 4;
  }
}

// Bit i of the 32 at `high` is the fifth bit of element i.
void add_fifth_bits(const uint8_t* high, uint8_t* codes) {
  uint32_t bits;
  std::memcpy(&bits, high, sizeof bits);
  for (int i = 0; i < 2 * kHalf; ++i) {
    codes[i] = static_cast<uint8_t>(codes[i] | (((bits >> i) & 1) << 4));
  }
}

}  // namespace

void unpack_q4_0(const uint8_t* block, uint8_t* codes, float* scales, float*) {
  scales[0] = load_f16(block);
  unpack_nibbles(block + 2, codes);
}

void unpack_q4_1(const uint8_t* block, uint8_t* codes, float* scales, float* mins) {
  scales[0] = load_f16(block);
  mins[0] = load_f16(block + 2);
  unpack_nibbles(block + 4, codes);
}

void unpack_q5_0(const uint8_t* block, uint8_t* codes, float* scales, float*) {
  scales[0] = load_f16(block);
  unpack_nibbles(block + 6, codes);
  add_fifth_bits(block + 2, codes);
}

void unpack_q5_1(const uint8_t* block, uint8_t* codes, float* scales, float* mins) {
  scales[0] = load_f16(block);
  mins[0] = load_f16(block + 2);
  unpack_nibbles(block + 8, codes);
  add_fifth_bits(block + 4, codes);
}

void unpack_q8_0(const uint8_t* block, uint8_t* codes, float* scales, float*) {
  scales[0] = load_f16(block);
  for (int i = 0; i < 32; ++i) codes[i] = block[2 + i] ^ 0x80;  // two's complement + 128
}

void unpack_iq4_nl(const uint8_t* block, uint8_t* codes, float* scales, float*) {
  scales[0] = load_f16(block);
  unpack_nibbles(block + 2, codes);
  for (int i = 0; i < 32; ++i) codes[i] = kNonLinear[codes[i]];
}

}  // namespace clover
