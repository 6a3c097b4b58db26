// SPDX-License-Identifier: Apache-2.0
#include "tensor/quantise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "tensor/quant.h"

namespace clover {
namespace {

constexpr int kBlock = 32;

// The factor from values to codes. A scale so small that its reciprocal overflows is stored as the
// half 0 anyway, so the codes do not matter.
float reciprocal(float scale) {
  const float inverse = scale == 0 ? 0.0f : 1.0f / scale;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

void store_f16(float value, uint8_t* out) {
  const uint16_t bits = f32_to_f16(value);
  if ((bits & 0x7c00) == 0x7c00) {
    fail(ErrorCode::kInvalidArgument, "a block's scale or minimum {} does not fit a half", value);
  }
  std::memcpy(out, &bits, sizeof bits);
}

int nibble(float value) { return std::clamp(static_cast<int>(value), 0, 15); }

void block_q4_0(const float* x, uint8_t* out) {
  // The value of the largest magnitude gets code 0, so that it is exact whatever its sign.
  const float* extreme =
      std::max_element(x, x + kBlock, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  const float scale = *extreme / -8;
  const float inverse = reciprocal(scale);
  store_f16(scale, out);
  for (int i = 0; i < 16; ++i) {
    const int low = nibble(x[i] * inverse + 8.5f);
    const int high = nibble(x[i + 16] * inverse + 8.5f);
    out[2 + i] = static_cast<uint8_t>(low | (high << 4));
  }
}

void block_q4_1(const float* x, uint8_t* out) {
  const auto [low_end, high_end] = std::minmax_element(x, x + kBlock);
  const float minimum = *low_end;
  const float scale = (*high_end - minimum) / 15;
  const float inverse = reciprocal(scale);
  store_f16(scale, out);
  store_f16(minimum, out + 2);
  for (int i = 0; i < 16; ++i) {
    const int low = nibble((x[i] - minimum) * inverse + 0.5f);
    const int high = nibble((x[i + 16] - minimum) * inverse + 0.5f);
    out[4 + i] = static_cast<uint8_t>(low | (high << 4));
  }
}

void block_q8_0(const float* x, uint8_t* out) {
  float largest = 0;
  for (int i = 0; i < kBlock; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float scale = largest / 127;
  const float inverse = reciprocal(scale);
  store_f16(scale, out);
  for (int i = 0; i < kBlock; ++i) {
    out[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(std::roundf(x[i] * inverse)));
  }
}

template <uint16_t convert(float)>
void convert_all(const float* src, int64_t n, uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t bits = convert(src[i]);
    std::memcpy(out + 2 * i, &bits, sizeof bits);
  }
}

template <void block(const float*, uint8_t*)>
void convert_blocks(DType type, const float* src, int64_t n, uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(src[i])) {
      fail(ErrorCode::kInvalidArgument, "value {} at index {} cannot be quantised to {}", src[i], i,
           dtype_name(type));
    }
  }
  for (int64_t b = 0; b < n / kBlock; ++b) block(src + b * kBlock, out + b * block_bytes(type));
}

}  // namespace

void quantise(DType type, const float* src, int64_t n, std::byte* out) {
  if (!byte_size(type, n)) {
    fail(ErrorCode::kInvalidArgument, "{} elements are not a whole number of {} blocks of {}", n,
         dtype_name(type), block_elements(type));
  }
  auto* bytes = reinterpret_cast<uint8_t*>(out);
  switch (type) {
    case DType::kF32:
      if (n > 0) std::memcpy(bytes, src, static_cast<size_t>(n) * sizeof(float));
      return;
    case DType::kF16:
      return convert_all<f32_to_f16>(src, n, bytes);
    case DType::kBF16:
      return convert_all<f32_to_bf16>(src, n, bytes);
    case DType::kQ4_0:
      return convert_blocks<block_q4_0>(type, src, n, bytes);
    case DType::kQ4_1:
      return convert_blocks<block_q4_1>(type, src, n, bytes);
    case DType::kQ8_0:
      return convert_blocks<block_q8_0>(type, src, n, bytes);
    default:
      fail(ErrorCode::kUnsupported, "F32 values cannot be quantised to {}", dtype_name(type));
  }
}

std::vector<std::byte> quantise(DType type, const float* src, int64_t n) {
  std::vector<std::byte> out(static_cast<size_t>(byte_size(type, n).value_or(0)));
  quantise(type, src, n, out.data());
  return out;
}

}  // namespace clover
