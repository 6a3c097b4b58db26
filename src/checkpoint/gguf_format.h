// SPDX-License-Identifier: Apache-2.0
// The numbers of the GGUF file format, shared by reader and writer.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "tensor/dtype.h"

namespace clover::gguf {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kVersion = 3;  // version 2 has the same layout
constexpr uint32_t kDefaultAlignment = 32;
constexpr uint32_t kMaxDimensions = 4;

enum class ValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

struct TypeId {
  uint32_t id;
  DType type;
};

// Tensor types as numbered in files. Numbers that are missing here are not supported.
constexpr std::array kTypeIds = {
    TypeId{0, DType::kF32},     TypeId{1, DType::kF16},   TypeId{2, DType::kQ4_0},
    TypeId{3, DType::kQ4_1},    TypeId{6, DType::kQ5_0},  TypeId{7, DType::kQ5_1},
    TypeId{8, DType::kQ8_0},    TypeId{10, DType::kQ2_K}, TypeId{11, DType::kQ3_K},
    TypeId{12, DType::kQ4_K},   TypeId{13, DType::kQ5_K}, TypeId{14, DType::kQ6_K},
    TypeId{20, DType::kIQ4_NL}, TypeId{24, DType::kI8},   TypeId{25, DType::kI16},
    TypeId{26, DType::kI32},    TypeId{27, DType::kI64},  TypeId{28, DType::kF64},
    TypeId{30, DType::kBF16},
};

}  // namespace clover::gguf
