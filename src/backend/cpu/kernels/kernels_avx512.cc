// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "backend/cpu/kernels/kernel_table_inl.h"
#include "backend/cpu/kernels/simd_avx512.h"

namespace clover {
namespace {

bool supported() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}

constexpr KernelTable kTable = make_kernel_table<SimdAvx512>("avx512", &supported);

}  // namespace

const KernelTable& kernels_avx512() { return kTable; }

}  // namespace clover
