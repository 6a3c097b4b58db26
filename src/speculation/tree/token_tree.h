// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace clover {

// The tokens that one pass checks for one sequence, as an array of parents. Node 0 is the root: the
// last drawn token, whose key and value are not stored yet. Every other node is a draft: a guess at
// the token after its parent. Parents come before their children. Plain decoding is the root alone.
struct TokenTree {
  std::vector<int32_t> tokens;   // [N]
  std::vector<int32_t> parents;  // [N], -1 for the root
  std::vector<int32_t> depths;   // [N], 0 for the root

  explicit TokenTree(int32_t root) : tokens{root}, parents{-1}, depths{0} {}
  int32_t size() const { return static_cast<int32_t>(tokens.size()); }
  // Adds a draft below `parent` and returns its index; if the parent already has that child,
  // returns the child.
  int32_t add(int32_t parent, int32_t token);
  // The child of `parent` that carries `token`, or -1.
  int32_t child(int32_t parent, int32_t token) const;
};

}  // namespace clover
