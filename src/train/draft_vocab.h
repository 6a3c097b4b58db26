// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "train/training_data.h"

namespace clover {

// The tokens that a speculator should be able to draft.
struct DraftVocab {
  std::vector<int32_t> tokens;  // ascending
  double coverage = 0;          // share of the answers' tokens that are among them
};

// The `size` tokens that answers of the training texts have most often; equal counts go by lower
// id, and what never occurs fills up the same way. Error(kInvalidArgument) for a size outside
// 1 … vocab.
DraftVocab choose_draft_vocab(const TrainingData& data, int64_t size);

}  // namespace clover
