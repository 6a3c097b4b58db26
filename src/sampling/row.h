// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace clover {

// A row of logits seen in blocks of kRowBlock tokens, each with its maximum. Nearly all work after
// the first pass concerns the few tokens near the top, and a block whose maximum is too low is left
// out whole; this is what makes a draw cost little more than reading the row.
inline constexpr int64_t kRowBlock = 128;
inline constexpr float kExcluded = -std::numeric_limits<float>::infinity();

inline constexpr int64_t row_blocks(int64_t size) { return (size + kRowBlock - 1) / kRowBlock; }

struct RowScan {
  float max = kExcluded;  // meaningless when has_nan
  bool has_nan = false;
};

// The greatest value of `row` and, in `block_max` [row_blocks(size)], of each block.
RowScan scan_row(std::span<const float> row, std::vector<float>& block_max);

// The lowest index whose value equals `value`, which must be the greatest of the row.
int32_t first_equal(std::span<const float> row, std::span<const float> block_max, float value);

// Processed logits of a draw, shifted so that the greatest is 0, padded with kExcluded to whole
// blocks; kExcluded marks a token that cannot be drawn.
struct TemperedRow {
  int64_t size = 0;              // tokens
  std::vector<float> values;     // [row_blocks(size) * kRowBlock]
  std::vector<float> block_max;  // [row_blocks(size)]
};

// A truncation of the distribution: it keeps the tokens above `value` and, of those equal to it,
// the ones up to `last_id`. Top-k, top-p and min-p all have this form (ties: lower id first), so
// each one only tightens the cut before it.
struct Cut {
  float value = std::numeric_limits<float>::lowest();
  int32_t last_id = std::numeric_limits<int32_t>::max();
  bool keeps(float z, int64_t id) const { return z > value || (z == value && id <= last_id); }
};

// A token with its value; the order is by value descending, then id ascending.
struct RankedToken {
  float value;
  int32_t id;
  bool operator<(const RankedToken& other) const {
    return value != other.value ? value > other.value : id < other.id;
  }
};

// All tokens with value ≥ some bound such that at least min(n, tokens above kExcluded) are among
// them; unordered, bound as high as the block maxima tell. `row` may or may not be padded.
void gather_top(std::span<const float> row, std::span<const float> block_max, int64_t n,
                std::vector<RankedToken>& out);

}  // namespace clover
