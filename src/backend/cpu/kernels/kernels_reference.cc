// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "backend/cpu/kernels/kernel_table_inl.h"
#include "backend/cpu/kernels/simd_reference.h"

namespace clover {
namespace {

bool supported() { return true; }

constexpr KernelTable kTable = make_kernel_table<SimdReference>("reference", &supported);

}  // namespace

const KernelTable& kernels_reference() { return kTable; }

}  // namespace clover
