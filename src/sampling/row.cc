// SPDX-License-Identifier: Apache-2.0
#include "sampling/row.h"

#include <algorithm>
#include <array>
#include <functional>

#include "sampling/lanes.h"

namespace clover {
namespace {

RowScan scan_block(const float* x) {
  Float4 top[4];
  Int4 bad = {0, 0, 0, 0};
  for (Float4& t : top) t = Float4{kExcluded, kExcluded, kExcluded, kExcluded};
  for (int64_t j = 0; j < kRowBlock; j += 16) {
    for (int64_t i = 0; i < 4; ++i) {
      const Float4 v = load4(x + j + 4 * i);
      top[i] = max4(v, top[i]);
      bad |= v != v;
    }
  }
  const float max = max_lane(max4(max4(top[0], top[1]), max4(top[2], top[3])));
  return {max, (bad[0] | bad[1] | bad[2] | bad[3]) != 0};
}

}  // namespace

RowScan scan_row(std::span<const float> row, std::vector<float>& block_max) {
  const int64_t size = static_cast<int64_t>(row.size());
  const int64_t whole = size / kRowBlock;
  block_max.resize(row_blocks(size));
  RowScan all;
  const auto add = [&](int64_t b, const float* x) {
    const RowScan block = scan_block(x);
    block_max[b] = block.max;
    all.max = block.max > all.max ? block.max : all.max;
    all.has_nan |= block.has_nan;
  };
  for (int64_t b = 0; b < whole; ++b) add(b, row.data() + b * kRowBlock);
  if (whole * kRowBlock < size) {
    std::array<float, kRowBlock> tail;
    tail.fill(kExcluded);
    std::copy(row.begin() + whole * kRowBlock, row.end(), tail.begin());
    add(whole, tail.data());
  }
  return all;
}

int32_t first_equal(std::span<const float> row, std::span<const float> block_max, float value) {
  const auto block = std::find(block_max.begin(), block_max.end(), value);
  const auto begin = row.begin() + (block - block_max.begin()) * kRowBlock;
  return static_cast<int32_t>(std::find(begin, row.end(), value) - row.begin());
}

void gather_top(std::span<const float> row, std::span<const float> block_max, int64_t n,
                std::vector<RankedToken>& out) {
  out.clear();
  if (n <= 0) return;
  // The n-th greatest block maximum is at most the n-th greatest value.
  float bound = std::numeric_limits<float>::lowest();
  if (n <= static_cast<int64_t>(block_max.size())) {
    std::vector<float> order(block_max.begin(), block_max.end());
    std::nth_element(order.begin(), order.begin() + (n - 1), order.end(), std::greater<>());
    bound = std::max(bound, order[n - 1]);
  }
  const int64_t size = static_cast<int64_t>(row.size());
  for (int64_t b = 0; b < static_cast<int64_t>(block_max.size()); ++b) {
    if (block_max[b] < bound) continue;
    const int64_t end = std::min(size, (b + 1) * kRowBlock);
    for (int64_t i = b * kRowBlock; i < end; ++i) {
      if (row[i] >= bound) out.push_back({row[i], static_cast<int32_t>(i)});
    }
  }
}

}  // namespace clover
