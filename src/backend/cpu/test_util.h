// SPDX-License-Identifier: Apache-2.0
// Random inputs and bitwise comparison for the backend's tests.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/kernels/kernels.h"
#include "base/random.h"
#include "tensor/quant.h"
#include "tensor/quantise.h"

namespace clover {

// A stream of random numbers that is the same in every run.
class Random {
 public:
  explicit Random(uint64_t seed) : key_(stream_key(seed, 0)) {}
  uint64_t bits() { return random_bits(key_, lane_++); }
  // In [low, high).
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(bits() % static_cast<uint64_t>(high - low));
  }
  float uniform(float low, float high) {
    return low + (high - low) * static_cast<float>(random_uniform(key_, lane_++));
  }
  std::vector<float> floats(int64_t n, float scale = 1.0f) {
    std::vector<float> out(static_cast<size_t>(n));
    for (float& x : out) x = uniform(-scale, scale);
    return out;
  }

 private:
  uint64_t key_;
  uint64_t lane_ = 0;
};

// Index of the first value whose bits differ, or -1. Two NaN are equal: which one an operation
// returns is not defined.
inline int64_t first_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return static_cast<int64_t>(std::min(a.size(), b.size()));
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]))
      return static_cast<int64_t>(i);
  }
  return -1;
}

inline ::testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  const int64_t at = first_difference(a, b);
  if (at < 0) return ::testing::AssertionSuccess();
  if (a.size() != b.size())
    return ::testing::AssertionFailure() << a.size() << " values against " << b.size();
  const auto i = static_cast<size_t>(at);
  return ::testing::AssertionFailure()
         << "value " << at << " of " << a.size() << ": " << a[i] << " and " << b[i];
}

// Kernel tables that this machine runs, the reference first.
inline std::vector<const KernelTable*> tables() {
  std::vector<const KernelTable*> all{&kernels_reference()};
  for (const KernelTable* table : {&kernels_avx2(), &kernels_avx512()})
    if (table->supported()) all.push_back(table);
  return all;
}

// Values at an address that is `shift` floats past a 64-byte boundary, with `guard` around them:
// what a kernel must not change.
class Misaligned {
 public:
  Misaligned(int64_t n, int64_t shift, float fill = kGuard)
      : memory_(static_cast<size_t>(n + shift + 64), kGuard), size_(static_cast<size_t>(n)) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    first_ = (64 - address % 64) % 64 / sizeof(float) + 16 + static_cast<size_t>(shift);
    for (float& x : values()) x = fill;
  }
  float* data() { return memory_.data() + first_; }
  std::span<float> values() { return {data(), size_}; }
  bool guards_intact() const {
    for (size_t i = 0; i < memory_.size(); ++i)
      if ((i < first_ || i >= first_ + size_) && memory_[i] != kGuard) return false;
    return true;
  }
  static constexpr float kGuard = -12345.0f;

 private:
  std::vector<float> memory_;
  size_t size_;
  size_t first_;
};

inline constexpr DType kWeightTypes[] = {DType::kF32,  DType::kF16,   DType::kBF16, DType::kQ4_0,
                                         DType::kQ4_1, DType::kQ5_0,  DType::kQ5_1, DType::kQ8_0,
                                         DType::kQ2_K, DType::kQ3_K,  DType::kQ4_K, DType::kQ5_K,
                                         DType::kQ6_K, DType::kIQ4_NL};

// Byte offsets of the float16 scales in a block of a quantised type.
inline std::vector<int> scale_offsets(DType type) {
  switch (type) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ2_K:
      return {80, 82};
    case DType::kQ3_K:
      return {108};
    case DType::kQ6_K:
      return {208};
    default:
      return {0};
  }
}

// A random {rows, cols} weight of any type: the quantiser's output where there is one, else random
// codes with scales that make elements of about 1.
struct RandomWeight {
  std::vector<std::byte> bytes;
  WeightView view;

  RandomWeight(DType type, int64_t rows, int64_t cols, uint64_t seed) {
    Random random(seed);
    const int64_t n = rows * cols;
    const bool has_quantiser =
        !is_quantised(type) || type == DType::kQ4_0 || type == DType::kQ4_1 || type == DType::kQ8_0;
    if (has_quantiser) {
      bytes = quantise(type, random.floats(n).data(), n);
    } else {
      bytes.resize(static_cast<size_t>(*byte_size(type, n)));
      for (std::byte& b : bytes) b = static_cast<std::byte>(random.bits() & 255);
      const float largest = block_elements(type) == 256 ? 1.0f / 512 : 1.0f / 32;
      for (int64_t b = 0; b < n / block_elements(type); ++b)
        for (const int at : scale_offsets(type)) {
          const uint16_t half = f32_to_f16(random.uniform(largest / 4, largest));
          std::memcpy(bytes.data() + b * block_bytes(type) + at, &half, sizeof half);
        }
    }
    view = {type, rows, cols, bytes.data()};
  }
  RandomWeight(const RandomWeight&) = delete;
  RandomWeight(RandomWeight&& other) noexcept : bytes(std::move(other.bytes)), view(other.view) {}

  std::vector<float> floats() const {
    std::vector<float> out(static_cast<size_t>(view.rows * view.cols));
    dequantise(view.type, view.data, view.rows * view.cols, out.data());
    return out;
  }
};

inline std::vector<float> host(Backend& backend, const Tensor& x) {
  std::vector<float> out(static_cast<size_t>(x.rows() * x.cols()));
  backend.to_host(x, out.data());
  return out;
}

// Row r of host values with `cols` columns.
inline std::span<const float> row_of(const std::vector<float>& values, int64_t cols, int64_t r) {
  return std::span<const float>(values).subspan(static_cast<size_t>(r * cols),
                                                static_cast<size_t>(cols));
}

}  // namespace clover
