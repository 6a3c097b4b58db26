// SPDX-License-Identifier: Apache-2.0
#include "speculation/verification/walk.h"

#include <utility>

namespace clover {

WalkResult walk(const TokenTree& tree,
                const std::function<Draw(int32_t, std::span<const int32_t>)>& draw,
                const std::function<bool(int32_t)>& stop) {
  WalkResult result;
  std::vector<int32_t> pending;
  for (int32_t node = 0; node >= 0;) {
    Draw drawn = draw(node, pending);
    const int32_t token = drawn.id;
    result.path.push_back(node);
    result.draws.push_back(std::move(drawn));
    pending.push_back(token);
    node = tree.child(node, token);
    result.drafted.push_back(node >= 0 ? 1 : 0);
    if (stop(token)) break;
  }
  return result;
}

}  // namespace clover
