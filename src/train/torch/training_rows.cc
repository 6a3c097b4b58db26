// SPDX-License-Identifier: Apache-2.0
#include "train/torch/training_rows.h"

#include <algorithm>

#include "base/error.h"

namespace clover {
namespace {

// The first token that head 0 predicts: row 0 holds feature 0 and token 1.
constexpr int64_t kAhead = 2;

void check(const TrainingBatch& batch, int64_t vocab) {
  int64_t total = 0;
  for (const int64_t length : batch.lengths) {
    if (length < 1) fail(ErrorCode::kInvalidArgument, "a training sequence of {} tokens", length);
    total += length;
  }
  if (total != static_cast<int64_t>(batch.tokens.size()) ||
      batch.loss.size() != batch.tokens.size())
    fail(ErrorCode::kInvalidArgument,
         "a training batch of sequences of {} tokens together has {} tokens and {} marks", total,
         batch.tokens.size(), batch.loss.size());
  for (const int32_t token : batch.tokens) {
    if (token < 0 || token >= vocab)
      fail(ErrorCode::kInvalidArgument, "training token {} is outside the vocabulary of {}", token,
           vocab);
  }
}

}  // namespace

TrainingRows::TrainingRows(const TrainingBatch& batch, int64_t heads, int64_t vocab,
                           int64_t scratch)
    : batch_(batch), needed_(index(heads)), predicting_(index(heads)) {
  check(batch, vocab);
  int64_t first = 0;
  for (const int64_t length : batch.lengths) {
    add_sequence(first, length, heads, scratch);
    first += length;
  }
}

void TrainingRows::add_sequence(int64_t first, int64_t length, int64_t heads, int64_t scratch) {
  int64_t last = length - 1;
  while (last >= kAhead && !batch_.loss[index(first + last)]) --last;
  if (last < kAhead) return;  // nothing to predict
  const auto first_row = static_cast<int64_t>(token_.size());
  const Sequence s = {first, first_row, last - kAhead + 1, blocks()};
  for (int64_t t = 0; t < s.rows; ++t) {
    token_.push_back(first + t);
    sequence_.push_back(static_cast<int64_t>(sequences_.size()));
    // Heads before the last that this row serves are needed too: states build on each other.
    int64_t serves = heads - 1;
    while (serves >= 0 &&
           (t + kAhead + serves > last || !batch_.loss[index(first + t + kAhead + serves)]))
      --serves;
    for (int64_t head = 0; head <= serves; ++head) {
      std::vector<int32_t>& needed = needed_[index(head)];
      if (batch_.loss[index(first + t + kAhead + head)])
        predicting_[index(head)].push_back(static_cast<int32_t>(needed.size()));
      needed.push_back(static_cast<int32_t>(first_row + t));
    }
  }
  const int64_t count = kv_blocks_for(s.rows * (1 + scratch));
  for (int64_t i = 0; i < count; ++i) block_ids_.push_back(static_cast<int32_t>(blocks()));
  sequences_.push_back(s);
}

std::span<const int32_t> TrainingRows::blocks_of(const Sequence& s) const {
  return std::span(block_ids_).subspan(index(s.first_block));
}

std::vector<int32_t> TrainingRows::kept(int64_t head) const {
  const std::vector<int32_t>& before = needed(head - 1);
  std::vector<int32_t> places;
  auto at = before.begin();
  for (const int32_t row : needed(head)) {
    at = std::lower_bound(at, before.end(), row);
    places.push_back(static_cast<int32_t>(at - before.begin()));
  }
  return places;
}

std::vector<int32_t> TrainingRows::tokens(std::span<const int32_t> rows, int64_t ahead) const {
  std::vector<int32_t> out;
  out.reserve(rows.size());
  for (const int32_t row : rows) out.push_back(batch_.tokens[index(token_[index(row)] + ahead)]);
  return out;
}

AttentionPlan TrainingRows::plan() const {
  AttentionPlan plan;
  for (const Sequence& s : sequences_) {
    plan.sequences.push_back({blocks_of(s), s.first_row, s.rows});
    for (int64_t t = 0; t < s.rows; ++t) {
      plan.slot.push_back(t);
      plan.position.push_back(t);
      plan.linear_len.push_back(t + 1);
    }
  }
  plan.tail_begin.assign(plan.slot.size() + 1, 0);
  return plan;
}

AttentionPlan TrainingRows::drafted_plan(int64_t head) const {
  AttentionPlan plan;
  plan.tail_begin.push_back(0);
  int64_t before = -1;  // sequence of the row before
  for (const int32_t row : needed(head)) {
    const Sequence& s = sequences_[index(sequence_[index(row)])];
    if (sequence_[index(row)] != before) {
      before = sequence_[index(row)];
      plan.sequences.push_back({blocks_of(s), plan.rows(), 0});
    }
    ++plan.sequences.back().rows;
    const int64_t t = row - s.first_row;
    for (int64_t depth = 1; depth <= head; ++depth) plan.tail.push_back(s.rows * depth + t);
    plan.slot.push_back(plan.tail.back());
    plan.position.push_back(t + head);
    plan.linear_len.push_back(t + 1);
    plan.tail_begin.push_back(static_cast<int64_t>(plan.tail.size()));
  }
  return plan;
}

}  // namespace clover
