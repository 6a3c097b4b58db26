// SPDX-License-Identifier: Apache-2.0
// One function per block format that undoes its packing; internal to the room.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "tensor/quant.h"

namespace clover {

static_assert(std::endian::native == std::endian::little, "GGUF blocks are little endian");

// Reads a half at any address.
inline float load_f16(const uint8_t* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return f16_to_f32(bits);
}

// Each takes one block and writes its codes[block elements] and scales[block elements / group], and
// for the formats with minima mins[block elements / group].
void unpack_q4_0(const uint8_t* block, uint8_t* codes, float* scales, float* mins);
void unpack_q4_1(const uint8_t* block, uint8_t* codes, float* scales, float* mins);
void unpack_q5_0(const uint8_t* block, uint8_t* codes, float* scales, float* mins);
void unpack_q5_1(const uint8_t* block, uint8_t* codes, float* scales, float* mins);
void unpack_q8_0(const uint8_t* block, uint8_t* codes, float* scales, float* mins);
void unpack_iq4_nl(const uint8_t* block, uint8_t* codes, float* scales, float* mins);

void unpack_q2_k(const uint8_t* block, uint8_t* codes, float* scales, float* mins);
void unpack_q3_k(const uint8_t* block, uint8_t* codes, float* scales, float* mins);
void unpack_q4_k(const uint8_t* block, uint8_t* codes, float* scales, float* mins);
void unpack_q5_k(const uint8_t* block, uint8_t* codes, float* scales, float* mins);
void unpack_q6_k(const uint8_t* block, uint8_t* codes, float* scales, float* mins);

}  // namespace clover
