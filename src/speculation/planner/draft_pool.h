// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "speculation/planner/calibration.h"

namespace clover {

// Everything that the sources proposed for one sequence in one round, as a tree: the tokens that a
// pass checks are chosen from it, and what turns out right or wrong in it is learnt from.
struct DraftPool {
  struct Entry {
    int32_t parent = -1;  // entry, -1 for the root
    int32_t token = 0;
    int32_t depth = 0;         // 0 for the root
    int32_t rank = 0;          // among its siblings by probability, 0 the best
    float probability = 1.0f;  // that the target says the token after its parent, calibrated
    float joint = 1.0f;        // product along the path
    int32_t first_child = 0;   // children are neighbours
    int32_t children = 0;
    int32_t vote_count = 0;
    std::array<Vote, kMaxSources> vote{};
    std::span<const Vote> votes() const { return {vote.data(), static_cast<size_t>(vote_count)}; }
  };
  std::vector<Entry> entries;  // the root first; parents before children

  void reset(int32_t root_token) {
    entries.assign(1, {});
    entries.front().token = root_token;
  }
  int32_t size() const { return static_cast<int32_t>(entries.size()); }
  const Entry& operator[](int32_t i) const { return entries[static_cast<size_t>(i)]; }
  Entry& operator[](int32_t i) { return entries[static_cast<size_t>(i)]; }
  // The child of `parent` that carries `token`, or -1.
  int32_t child(int32_t parent, int32_t token) const {
    const Entry& entry = (*this)[parent];
    for (int32_t c = entry.first_child; c < entry.first_child + entry.children; ++c)
      if ((*this)[c].token == token) return c;
    return -1;
  }
};

}  // namespace clover
