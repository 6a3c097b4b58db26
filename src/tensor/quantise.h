// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace clover {

// Converts `n` float32 values to `type`: F32, F16, BF16, Q4_0, Q4_1 or Q8_0. `n` must be a multiple
// of block_elements(type); `out` receives byte_size(type, n) bytes, the same as the `gguf` Python
// package writes. Error(kUnsupported) for other types, Error(kInvalidArgument) for a count that is
// not whole blocks, for values that are not finite and for blocks whose scale exceeds half range
// (plain F32, F16 and BF16 take any value).
void quantise(DType type, const float* src, int64_t n, std::byte* out);

// The same into a new buffer.
std::vector<std::byte> quantise(DType type, const float* src, int64_t n);

}  // namespace clover
