// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/cpu/kernels/kernels.h"

namespace clover {

// How a tile's scratch is divided: probabilities [vectors][length], scores of tail keys
// [vectors][tail_slots], one gathered block of tail keys [head_dim][16], one inverse sum and one
// accumulator [value_stride] for every vector. Defined in kernels.cc, which is compiled for the
// baseline: code shared by translation units of several instruction sets must not be inline.
struct AttentionScratch {
  int64_t vectors = 0;
  int64_t length = 0;      // longest path, rounded up to 16, plus a block of slack
  int64_t linear = 0;      // longest linear part
  int64_t tail_slots = 0;  // all tail entries, rounded up to 16
  explicit AttentionScratch(const AttentionTile& tile);
};

}  // namespace clover
