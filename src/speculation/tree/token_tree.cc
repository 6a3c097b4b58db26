// SPDX-License-Identifier: Apache-2.0
#include "speculation/tree/token_tree.h"

namespace clover {

int32_t TokenTree::add(int32_t parent, int32_t token) {
  const int32_t existing = child(parent, token);
  if (existing >= 0) return existing;
  tokens.push_back(token);
  parents.push_back(parent);
  depths.push_back(depths[static_cast<size_t>(parent)] + 1);
  return size() - 1;
}

int32_t TokenTree::child(int32_t parent, int32_t token) const {
  for (size_t i = static_cast<size_t>(parent) + 1; i < tokens.size(); ++i)
    if (parents[i] == parent && tokens[i] == token) return static_cast<int32_t>(i);
  return -1;
}

}  // namespace clover
