// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "speculation/speculators/speculator.h"

namespace clover {

// The LM head of a speculator over its draft vocabulary.
struct DraftHead {
  MatrixPtr matrix;          // {draft vocabulary, D}
  std::vector<int32_t> ids;  // the token of every row; empty: row i is token i
};

// Guesses of trained speculators are calibrated by depth and by their own probability.
inline constexpr int32_t kBinDepths = 8;      // deeper guesses share the last
inline constexpr int32_t kBinsPerDepth = 16;  // half a natural logarithm each

// The bin of a guess at the token behind a node of depth `depth`.
int32_t draft_bin(int32_t depth, float log_probability);

// The `width` likeliest tokens of every row of `states` [R, D] with their softmax probabilities
// over the draft vocabulary, best first. A row whose logits are not finite has no candidates.
std::vector<std::vector<Candidate>> best_candidates(Backend& backend, const DraftHead& head,
                                                    const Tensor& states, int32_t depth,
                                                    int32_t width);

}  // namespace clover
