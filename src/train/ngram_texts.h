// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "model/model.h"
#include "train/ngram_counts.h"
#include "train/training_data.h"

namespace clover {

// How far a count is; false ends it.
using NgramProgress = std::function<bool(int64_t texts, int64_t rows)>;

// Reads the training texts of `data` with the target, and counts what it says at every token of
// their answers. Texts that are held out are left out here as well. Takes one prompt pass over all
// tokens, and one over the LM head for every token of an answer. False when `progress` (may be
// null) ended it.
bool count_ngrams(const std::shared_ptr<const Model>& target, const TrainingData& data,
                  const NgramProgress& progress, NgramCounts& counts);

}  // namespace clover
