// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/kernels/attention_inl.h"
#include "backend/cpu/kernels/elementwise_inl.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/matmul_inl.h"
#include "backend/cpu/kernels/peak_inl.h"

namespace clover {

template <class S>
constexpr KernelTable make_kernel_table(std::string_view name, bool (*supported)()) {
  return {name,
          supported,
          &Elementwise<S>::quantise,
          &Matmul<S>::quantised,
          &Matmul<S>::floats,
          &Elementwise<S>::rms_norm,
          &Elementwise<S>::swiglu,
          &Elementwise<S>::silu_rows,
          &Elementwise<S>::cosine_gate,
          &Attention<S, uint16_t>::run,
          &Attention<S, float>::run,
          &Elementwise<S>::to_f16,
          &Peak<S>::read_memory,
          &Peak<S>::peak_int8,
          &Peak<S>::peak_float,
          &Elementwise<S>::chunk_max,
          &Elementwise<S>::log_sum_exp};
}

}  // namespace clover
