// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sampling/sampling.h"
#include "speculation/tree/token_tree.h"

namespace clover {

// What a verified tree yields.
struct WalkResult {
  std::vector<int32_t> path;     // nodes whose tokens are now committed, root first
  std::vector<Draw> draws;       // one per node of the path; the last is the token after it
  std::vector<uint8_t> drafted;  // per draw, whether the tree had proposed it
};

// Draw, then descend: at every node of the path the target draws its own token, and the walk goes
// to the child that carries it while there is one. Drafts decide how many positions a pass settles,
// never which token. `draw(node, pending)` draws the token after `node`, with the tokens drawn so
// far in this walk as `pending`. `stop(token)` ends the walk after a drawn token (end of text,
// length).
WalkResult walk(const TokenTree& tree,
                const std::function<Draw(int32_t node, std::span<const int32_t> pending)>& draw,
                const std::function<bool(int32_t token)>& stop);

}  // namespace clover
