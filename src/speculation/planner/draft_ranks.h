// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace clover {

// Where the token that the target drew stood among the candidates that the sources had named, for
// the nodes of accepted paths: how good the candidates are at each depth, and what a node's own
// rank says about those below it.
class DraftRanks {
 public:
  static constexpr int32_t kDepths =
      8;                                // of the candidates, 0: the first draft; deeper is left out
  static constexpr int32_t kRanks = 8;  // 0: the likeliest sibling; the last also stands for worse

  // A node of rank `parent_rank` (the root: 0) had been asked for candidates of `depth`, and the
  // drawn token was the one of rank `rank`, or none of them (< 0).
  void add(int32_t depth, int32_t parent_rank, int32_t rank) {
    if (depth >= kDepths) return;
    Cell& cell = cells_[static_cast<size_t>(depth)][place(parent_rank)];
    ++cell.asked;
    if (rank >= 0) ++cell.at[place(rank)];
  }
  int64_t asked(int32_t depth, int32_t parent_rank) const { return cell(depth, parent_rank).asked; }
  // Times that the drawn token had this rank.
  int64_t at(int32_t depth, int32_t parent_rank, int32_t rank) const {
    return cell(depth, parent_rank).at[static_cast<size_t>(rank)];
  }

 private:
  struct Cell {
    int64_t asked = 0;
    std::array<int64_t, kRanks> at{};
  };
  static size_t place(int32_t rank) { return static_cast<size_t>(std::min(rank, kRanks - 1)); }
  const Cell& cell(int32_t depth, int32_t parent_rank) const {
    return cells_[static_cast<size_t>(depth)][static_cast<size_t>(parent_rank)];
  }
  std::array<std::array<Cell, kRanks>, kDepths> cells_{};
};

}  // namespace clover
