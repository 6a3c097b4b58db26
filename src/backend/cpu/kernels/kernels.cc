// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/kernels.h"

#include <algorithm>

#include "backend/cpu/kernels/attention_scratch.h"

namespace clover {

AttentionScratch::AttentionScratch(const AttentionTile& tile) : vectors(tile.rows * tile.heads) {
  int64_t longest = 0;
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t path = tile.linear_len[r] + tile.tail_begin[r + 1] - tile.tail_begin[r];
    longest = std::max(longest, path);
    linear = std::max(linear, tile.linear_len[r]);
  }
  length = (longest + 15) / 16 * 16 + 16;
  tail_slots = (tile.tail_begin[tile.rows] - tile.tail_begin[0] + 15) / 16 * 16;
}

RowTile row_tile(int64_t rows, int64_t r) {
  const int64_t full = rows / 8 * 8;
  if (r < full) return {r / 8 * 8, 8};
  return {full, rows - full};
}

int64_t attention_scratch(const AttentionTile& tile) {
  const AttentionScratch s(tile);
  return s.vectors * (s.length + s.tail_slots + 1 + tile.kv.value_stride) + tile.kv.head_dim * 16;
}

}  // namespace clover
