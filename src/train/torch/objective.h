// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "train/recipe.h"
#include "train/torch/head_loss.h"
#include "train/torch/head_sums.h"
#include "train/torch/trainable.h"

namespace clover {

// Rows of every head of a batch, as Trainable::forward makes them, without computing anything.
std::vector<int64_t> count_rows(const TrainingBatch& batch, int64_t heads);

// A recipe's loss over the heads of a speculator.
class Objective {
 public:
  // Both must outlive it.
  Objective(const Trainable& speculator, const Recipe& recipe)
      : speculator_(speculator), recipe_(recipe) {}

  // Computes the batch and, with `learn`, adds to the parameters' gradients. `step_rows` are the
  // rows of every head in the whole step, of which the batch is a part: the loss is
  //   Σ_j decay^j rows_j / step_rows_j mean over the counted rows of head j.
  std::vector<HeadSums> run(const TrainingBatch& batch, const std::vector<int64_t>& step_rows,
                            bool learn) const;

 private:
  // What the target says: of every token that any head predicts.
  struct Teacher {
    std::vector<int64_t> place;  // [N] of a token among those, -1: no head predicts it
    at::Tensor normed;           // [U, D] what the target's own head multiplies
    at::Tensor probabilities;    // [U, draft vocabulary]
  };
  struct Rows {
    HeadTargets targets;
    std::vector<uint8_t> counted;  // [M]
  };
  Teacher teach(const TrainingBatch& batch, const std::vector<HeadRows>& heads) const;
  Rows choose_rows(const TrainingBatch& batch, const HeadRows& head, const Teacher& teacher,
                   const std::vector<uint8_t>& right) const;
  at::Tensor feature_loss(const HeadRows& head, const Teacher& teacher, const Rows& rows) const;

  const Trainable& speculator_;
  const Recipe& recipe_;
};

}  // namespace clover
