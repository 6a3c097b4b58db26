// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/json.h"
#include "train/recipe.h"

namespace clover {

// Sums over the rows of one head.
struct HeadSums {
  int64_t rows = 0;     // tokens that it was to predict
  int64_t counted = 0;  // of them, those with a loss
  double loss = 0;
  double feature = 0;
  int64_t top1 = 0;
  int64_t top5 = 0;
  HeadSums& operator+=(const HeadSums& other);
};

// As numbers in a row, and back: what processes of one training exchange.
std::vector<double> values_of(const std::vector<HeadSums>& sums);
std::vector<HeadSums> sums_of(std::span<const double> values);

// As the log has them.
Json scores_json(const std::vector<HeadSums>& sums);

// The whole loss of a step, from the sums of its batches.
double loss_of(const std::vector<HeadSums>& sums, const Recipe& recipe);

}  // namespace clover
