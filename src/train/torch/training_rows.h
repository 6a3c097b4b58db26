// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "train/torch/trainable.h"

namespace clover {

// Which rows of a batch a network has to work through so that every token with loss is predicted by
// every head that can: row t of a sequence is its feature t and token t + 1.
class TrainingRows {
 public:
  // `scratch`: slots for drafted tokens behind a sequence's own, as a multiple of its rows.
  // Error(kInvalidArgument) when the batch does not fit together.
  TrainingRows(const TrainingBatch& batch, int64_t heads, int64_t vocab, int64_t scratch);

  struct Sequence {
    int64_t first_token;  // in the batch
    int64_t first_row;    // among the rows
    int64_t rows;
    int64_t first_block;
  };
  const std::vector<Sequence>& sequences() const { return sequences_; }
  bool empty() const { return token_.empty(); }
  // Of every row: its feature's token in the batch.
  const std::vector<int64_t>& token() const { return token_; }
  int64_t blocks() const { return static_cast<int64_t>(block_ids_.size()); }

  // Rows that head `head` or one behind it needs, ascending, and of these the ones that it predicts
  // from itself (as places in the former).
  const std::vector<int32_t>& needed(int64_t head) const { return needed_[index(head)]; }
  const std::vector<int32_t>& predicting(int64_t head) const { return predicting_[index(head)]; }
  // Where the rows of head `head` > 0 stand among those of the head before it.
  std::vector<int32_t> kept(int64_t head) const;

  // The token that is `ahead` behind each of the rows' features.
  std::vector<int32_t> tokens(std::span<const int32_t> rows, int64_t ahead) const;
  // All rows, each behind those before it in its sequence.
  AttentionPlan plan() const;
  // The rows that head `head` > 0 needs as drafted tokens: behind the true ones up to each row,
  // one scratch slot of the row for every head up to this one.
  AttentionPlan drafted_plan(int64_t head) const;

 private:
  static size_t index(int64_t i) { return static_cast<size_t>(i); }
  void add_sequence(int64_t first, int64_t length, int64_t heads, int64_t scratch);
  std::span<const int32_t> blocks_of(const Sequence& s) const;

  const TrainingBatch& batch_;
  std::vector<Sequence> sequences_;
  std::vector<int64_t> token_;
  std::vector<int64_t> sequence_;  // of every row
  std::vector<int32_t> block_ids_;
  std::vector<std::vector<int32_t>> needed_;
  std::vector<std::vector<int32_t>> predicting_;
};

}  // namespace clover
