// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "backend/cpu/kernels/kernel_table_inl.h"
#include "backend/cpu/kernels/simd_avx2.h"

namespace clover {
namespace {

bool supported() {
  // F16C came with AVX, before AVX2 and FMA; clang 14 cannot ask for it by name.
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

constexpr KernelTable kTable = make_kernel_table<SimdAvx2>("avx2", &supported);

}  // namespace

const KernelTable& kernels_avx2() { return kTable; }

}  // namespace clover
