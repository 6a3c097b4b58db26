// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace clover {

// Which two neighbouring symbols of byte-pair encoding join, how early, and into what. Symbols are
// token ids (or numbers above them for characters that are no token); lower ranks join first.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank = kNone;
    int32_t result = -1;
  };
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  // Makes room for `count` merges.
  explicit MergeTable(size_t count = 0);
  // The first merge of a pair wins. Symbols and result must not be negative.
  void add(int32_t left, int32_t right, Merge merge);
  // rank kNone when the pair does not join.
  Merge find(int32_t left, int32_t right) const;

  // Joins pairs until none is left: always the pair of lowest rank, the leftmost among equals.
  // Symbols below 0 never join. O(n log n) time, O(n) heap, no recursion.
  void apply(std::vector<int32_t>& symbols) const;

 private:
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  size_t slot_of(uint64_t key) const;
  void grow();
  void apply_short(std::vector<int32_t>& symbols) const;
  void apply_long(std::vector<int32_t>& symbols) const;

  std::vector<Slot> slots_;
  size_t size_ = 0;
  int shift_ = 60;
};

}  // namespace clover
