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
// The k-th row of a sequence takes its slot committed + stored_parents.size() + k, which must be
// reserved.
//
// A tree may be sent in several passes, depth by depth: earlier passes stored its first rows at
// slots committed, committed + 1 …, and a later one names them in `stored_parents`. Rows hang below
// the i-th stored row by the parent stored_row(i).
//   Example: A's x was sent alone; its children follow as {blocks A, 5, 0, 2, stored_parents {-1}}
//   with tokens {y z} and parents {stored_row(0), stored_row(0)}, in slots 6 and 7.
struct Batch {
  struct Sequence {
    std::span<const int32_t> blocks;  // KV blocks, enough for committed + rows slots
    int64_t committed = 0;
    int64_t first_row = 0;
    int64_t rows = 0;
    // Number of each stored row's parent among the stored rows, -1: the last committed token.
    std::span<const int32_t> stored_parents = {};
  };
  std::vector<Sequence> sequences;
  std::vector<int32_t> tokens;  // [R]
  // [R] row index of the parent, -1: the last committed token, stored_row(i): an earlier pass's row
  std::vector<int32_t> parents;
  std::vector<uint8_t> wants_logits;  // [R]
  static constexpr int32_t stored_row(int32_t i) { return -2 - i; }
  int64_t rows() const { return static_cast<int64_t>(tokens.size()); }
};

}  // namespace clover
