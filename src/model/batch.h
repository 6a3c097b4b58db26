// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace clover {

// The rows of one forward pass: prompt chunks, decoding steps and token trees of any number of
// sequences. A prompt chunk is a chain, plain decoding a tree of one node (invariant 4).
//   Example: sequence A has 5 committed tokens and sends a tree (x; y and z children of x);
//   sequence B has 0 committed and sends a prompt (p q): sequences = {{blocks A, 5, 0, 3}, {blocks
//   B, 0, 3, 2}} tokens = {x y z p q}, parents = {-1 0 0 -1 3}, wants_logits = {1 1 1 0 1}.
// The k-th row of a sequence takes its slot committed + k, which must be reserved.
struct Batch {
  struct Sequence {
    std::span<const int32_t> blocks;  // KV blocks, enough for committed + rows slots
    int64_t committed = 0;
    int64_t first_row = 0;
    int64_t rows = 0;
  };
  std::vector<Sequence> sequences;
  std::vector<int32_t> tokens;        // [R]
  std::vector<int32_t> parents;       // [R] row index of the parent, -1: the last committed token
  std::vector<uint8_t> wants_logits;  // [R]
  int64_t rows() const { return static_cast<int64_t>(tokens.size()); }
};

}  // namespace clover
