// SPDX-License-Identifier: Apache-2.0
#include "tensor/quant.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "tensor/quant_blocks.h"

namespace clover {
namespace {

constexpr int kMaxBlock = 256;
constexpr int kMinGroup = 16;

using Unpack = void (*)(const uint8_t* block, uint8_t* codes, float* scales, float* mins);

struct Format {
  DType type;
  GroupFormat groups;
  Unpack unpack;
};

constexpr std::array kFormats = {
    Format{DType::kQ4_0, {32, 4, 8, false}, unpack_q4_0},
    Format{DType::kQ4_1, {32, 4, 0, true}, unpack_q4_1},
    Format{DType::kQ5_0, {32, 8, 16, false}, unpack_q5_0},
    Format{DType::kQ5_1, {32, 8, 0, true}, unpack_q5_1},
    Format{DType::kQ8_0, {32, 8, 128, false}, unpack_q8_0},
    Format{DType::kQ2_K, {16, 4, 0, true}, unpack_q2_k},
    Format{DType::kQ3_K, {16, 4, 4, false}, unpack_q3_k},
    Format{DType::kQ4_K, {32, 4, 0, true}, unpack_q4_k},
    Format{DType::kQ5_K, {32, 8, 0, true}, unpack_q5_k},
    Format{DType::kQ6_K, {16, 8, 32, false}, unpack_q6_k},
    Format{DType::kIQ4_NL, {32, 8, 128, false}, unpack_iq4_nl},
};

const Format& format_of(DType type) {
  for (const Format& format : kFormats) {
    if (format.type == type) return format;
  }
  fail(ErrorCode::kUnsupported, "type {} has no groups of quantised codes", dtype_name(type));
}

void check_count(DType type, int64_t n) {
  if (n < 0 || n % block_elements(type) != 0) {
    fail(ErrorCode::kInvalidArgument, "{} elements are not a whole number of {} blocks of {}", n,
         dtype_name(type), block_elements(type));
  }
}

template <float convert(uint16_t)>
void convert_halves(const uint8_t* src, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t bits;
    std::memcpy(&bits, src + 2 * i, sizeof bits);
    out[i] = convert(bits);
  }
}

void dequantise_block(const Format& format, const uint8_t* block, float* out) {
  const GroupFormat& groups = format.groups;
  const int elements = static_cast<int>(block_elements(format.type));
  uint8_t codes[kMaxBlock];
  float scales[kMaxBlock / kMinGroup];
  float mins[kMaxBlock / kMinGroup];
  format.unpack(block, codes, scales, mins);
  for (int g = 0; g < elements / groups.group; ++g) {
    const int first = g * groups.group;
    for (int i = first; i < first + groups.group; ++i) {
      const float product = scales[g] * static_cast<float>(codes[i] - groups.offset);
      // Not "+ 0" without a minimum: that would turn -0 into +0.
      out[i] = groups.has_min ? product + mins[g] : product;
    }
  }
}

}  // namespace

void dequantise(DType type, const std::byte* src, int64_t n, float* out) {
  check_count(type, n);
  const auto* bytes = reinterpret_cast<const uint8_t*>(src);
  switch (type) {
    case DType::kF32:
      if (n > 0) std::memcpy(out, bytes, static_cast<size_t>(n) * sizeof(float));
      return;
    case DType::kF16:
      return convert_halves<f16_to_f32>(bytes, n, out);
    case DType::kBF16:
      return convert_halves<bf16_to_f32>(bytes, n, out);
    default:
      break;
  }
  if (!is_quantised(type)) {
    fail(ErrorCode::kUnsupported, "elements of type {} do not convert to F32", dtype_name(type));
  }
  const Format& format = format_of(type);
  const int64_t elements = block_elements(type);
  for (int64_t b = 0; b < n / elements; ++b) {
    dequantise_block(format, bytes + b * block_bytes(type), out + b * elements);
  }
}

GroupFormat group_format(DType type) { return format_of(type).groups; }

void unpack_groups(DType type, const std::byte* src, int64_t n, uint8_t* codes, float* scales,
                   float* mins) {
  const Format& format = format_of(type);
  check_count(type, n);
  if (format.groups.has_min && mins == nullptr) {
    fail(ErrorCode::kInvalidArgument, "type {} has minima, but there is no room for them",
         dtype_name(type));
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(src);
  const int64_t elements = block_elements(type);
  const int64_t groups = elements / format.groups.group;
  for (int64_t b = 0; b < n / elements; ++b) {
    format.unpack(bytes + b * block_bytes(type), codes + b * elements, scales + b * groups,
                  mins == nullptr ? nullptr : mins + b * groups);
  }
  if (!format.groups.has_min && mins != nullptr) std::fill_n(mins, n / format.groups.group, 0.0f);
}

}  // namespace clover
