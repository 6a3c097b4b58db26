// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "model/model.h"

namespace clover {
namespace {

void check_sizes(const Batch& batch) {
  const size_t rows = batch.tokens.size();
  if (batch.parents.size() != rows || batch.wants_logits.size() != rows) {
    fail(ErrorCode::kInvalidArgument, "batch has {} tokens, but {} parents and {} flags for logits",
         rows, batch.parents.size(), batch.wants_logits.size());
  }
  int64_t next = 0;
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const Batch::Sequence& sequence = batch.sequences[s];
    if (sequence.first_row != next || sequence.rows < 1 || sequence.rows > batch.rows() - next) {
      fail(ErrorCode::kInvalidArgument,
           "batch: sequence {} claims rows {} + {}, expected to start at {} of {}", s,
           sequence.first_row, sequence.rows, next, rows);
    }
    next += sequence.rows;
    const int64_t slots = static_cast<int64_t>(sequence.blocks.size()) * kKvBlockTokens;
    if (sequence.committed < 0 || sequence.committed > slots - sequence.rows) {
      fail(ErrorCode::kInvalidArgument,
           "batch: sequence {} has KV blocks for {} tokens, but needs {} + {}", s, slots,
           sequence.committed, sequence.rows);
    }
  }
  if (next != batch.rows()) {
    fail(ErrorCode::kInvalidArgument, "batch: {} of {} rows belong to no sequence",
         batch.rows() - next, rows);
  }
}

// Where a row hangs: its parent's position and path, or the end of what is committed.
struct Stem {
  int64_t length = 0;      // positions before the row
  int64_t linear_len = 0;  // leading slots of the path that are 0, 1, 2 …
  int64_t tail_begin = 0;  // the rest of the path, in plan.tail
  int64_t tail_end = 0;
};

Stem find_stem(const AttentionPlan& plan, const Batch::Sequence& sequence, int64_t row,
               int64_t parent) {
  if (parent == -1) return {sequence.committed, sequence.committed, 0, 0};
  if (parent < sequence.first_row || parent >= row) {
    fail(ErrorCode::kInvalidArgument,
         "batch: parent {} of row {} is not an earlier row of the same sequence", parent, row);
  }
  const size_t p = static_cast<size_t>(parent);
  return {plan.position[p] + 1, plan.linear_len[p], plan.tail_begin[p], plan.tail_begin[p + 1]};
}

void append_row(AttentionPlan& plan, const Stem& stem, int64_t slot) {
  plan.slot.push_back(slot);
  plan.position.push_back(stem.length);
  if (stem.tail_begin == stem.tail_end && slot == stem.linear_len) {
    plan.linear_len.push_back(slot + 1);
  } else {
    plan.linear_len.push_back(stem.linear_len);
    for (int64_t i = stem.tail_begin; i < stem.tail_end; ++i) {
      plan.tail.push_back(plan.tail[static_cast<size_t>(i)]);
    }
    plan.tail.push_back(slot);
  }
  plan.tail_begin.push_back(static_cast<int64_t>(plan.tail.size()));
}

}  // namespace

AttentionPlan make_attention_plan(const Batch& batch) {
  check_sizes(batch);
  AttentionPlan plan;
  plan.tail_begin.push_back(0);
  for (const Batch::Sequence& sequence : batch.sequences) {
    plan.sequences.push_back({sequence.blocks, sequence.first_row, sequence.rows});
    for (int64_t k = 0; k < sequence.rows; ++k) {
      const int64_t row = sequence.first_row + k;
      const int64_t parent = batch.parents[static_cast<size_t>(row)];
      append_row(plan, find_stem(plan, sequence, row, parent), sequence.committed + k);
    }
  }
  return plan;
}

}  // namespace clover
