// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "speculation/planner/draft_pool.h"

namespace clover {

// Which drafts go into a tree.
struct TreePolicy {
  enum class Kind {
    kAuto,     // as many of the likeliest nodes as raise the tokens per second; may be none
    kNodes,    // the `nodes` likeliest
    kChain,    // the likeliest child of the likeliest child …, `nodes` deep
    kFixed25,  // EAGLE-1's and Clover-2's fixed shape of 25 nodes
    kClover1,  // Clover-1's sampling strategy (paper section 3.4) with `nodes` nodes
  };
  Kind kind = Kind::kAuto;
  int64_t nodes = 32;               // of one sequence, at most
  int64_t depth = kUnlimitedDepth;  // of the deepest draft (kNodes); a speculator's own apart

  static constexpr int64_t kUnlimitedDepth = 256;

  // "auto", a number of nodes, "NxD" (N nodes, none deeper than D), "chainN", "fixed25" or
  // "clover1". Error(kInvalidArgument) otherwise.
  static TreePolicy parse(std::string_view text);
  std::string name() const;
};

// Entries of one depth, [begin, end) of the pool, that are worth continuing when `nodes` may be
// taken in the end and entries below `least` (joint probability) are of no use; ascending.
std::vector<int32_t> tree_frontier(const TreePolicy& policy, const DraftPool& pool, int32_t begin,
                                   int32_t end, float least);
// The drafts of the tree for every policy but kAuto: at most `nodes`, parents first.
std::vector<int32_t> tree_nodes(const TreePolicy& policy, const DraftPool& pool, int64_t nodes);

}  // namespace clover
