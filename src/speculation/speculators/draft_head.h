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

// States [R, D] on their way into a head, which normalises them first where `norm` is given.
struct HeadInput {
  Tensor states;
  const Vector* norm = nullptr;
  float eps = 0.0f;
};

// The `width` likeliest tokens of every row with their softmax probabilities over the draft
// vocabulary, best first. A row whose logits are not finite has no candidates.
std::vector<std::vector<Candidate>> best_candidates(Backend& backend, const DraftHead& head,
                                                    const HeadInput& input, int32_t depth,
                                                    int32_t width);

}  // namespace clover
