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
    const auto behind = static_cast<int64_t>(sequence.stored_parents.size()) + sequence.rows;
    if (sequence.committed < 0 || sequence.committed > slots - behind) {
      fail(ErrorCode::kInvalidArgument,
           "batch: sequence {} has KV blocks for {} tokens, but needs {} + {}", s, slots,
           sequence.committed, behind);
    }
  }
  if (next != batch.rows()) {
    fail(ErrorCode::kInvalidArgument, "batch: {} of {} rows belong to no sequence",
         batch.rows() - next, rows);
  }
}

// Where a row hangs: its parent's position and path, or the end of what is committed.
struct Stem {
  int64_t length = 0;                          // positions before the row
  int64_t linear_len = 0;                      // leading slots of the path that are 0, 1, 2 …
  const std::vector<int64_t>* tail = nullptr;  // the rest of the path, in a plan's tail
  int64_t tail_begin = 0;
  int64_t tail_end = 0;
};

// The stem below row `index` of a plan.
Stem stem_below(const AttentionPlan& plan, int64_t index) {
  const auto i = static_cast<size_t>(index);
  return {plan.position[i] + 1, plan.linear_len[i], &plan.tail, plan.tail_begin[i],
          plan.tail_begin[i + 1]};
}

void append_row(AttentionPlan& plan, const Stem& stem, int64_t slot) {
  plan.slot.push_back(slot);
  plan.position.push_back(stem.length);
  if (stem.tail_begin == stem.tail_end && slot == stem.linear_len) {
    plan.linear_len.push_back(slot + 1);
  } else {
    plan.linear_len.push_back(stem.linear_len);
    for (int64_t i = stem.tail_begin; i < stem.tail_end; ++i) {
      plan.tail.push_back((*stem.tail)[static_cast<size_t>(i)]);
    }
    plan.tail.push_back(slot);
  }
  plan.tail_begin.push_back(static_cast<int64_t>(plan.tail.size()));
}

// The paths of the rows that earlier passes stored, for their children.
AttentionPlan stored_paths(const Batch::Sequence& sequence) {
  AttentionPlan plan;
  plan.tail_begin.push_back(0);
  for (size_t i = 0; i < sequence.stored_parents.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    const int64_t parent = sequence.stored_parents[i];
    if (parent < -1 || parent >= row)
      fail(ErrorCode::kInvalidArgument, "batch: parent {} of stored row {} is not an earlier one",
           parent, row);
    const Stem root = {.length = sequence.committed, .linear_len = sequence.committed};
    append_row(plan, parent < 0 ? root : stem_below(plan, parent), sequence.committed + row);
  }
  return plan;
}

Stem find_stem(const AttentionPlan& plan, const AttentionPlan& stored,
               const Batch::Sequence& sequence, int64_t row, int64_t parent) {
  if (parent == -1) return {.length = sequence.committed, .linear_len = sequence.committed};
  const int64_t stored_parent = int64_t{Batch::stored_row(0)} - parent;
  if (stored_parent >= 0 && stored_parent < stored.rows()) return stem_below(stored, stored_parent);
  if (parent < sequence.first_row || parent >= row) {
    fail(ErrorCode::kInvalidArgument,
         "batch: parent {} of row {} is not an earlier row of the same sequence", parent, row);
  }
  return stem_below(plan, parent);
}

}  // namespace

AttentionPlan make_attention_plan(const Batch& batch) {
  check_sizes(batch);
  AttentionPlan plan;
  plan.tail_begin.push_back(0);
  for (const Batch::Sequence& sequence : batch.sequences) {
    plan.sequences.push_back({sequence.blocks, sequence.first_row, sequence.rows});
    const AttentionPlan stored = stored_paths(sequence);
    const int64_t first_slot = sequence.committed + stored.rows();
    for (int64_t k = 0; k < sequence.rows; ++k) {
      const int64_t row = sequence.first_row + k;
      const int64_t parent = batch.parents[static_cast<size_t>(row)];
      append_row(plan, find_stem(plan, stored, sequence, row, parent), first_slot + k);
    }
  }
  return plan;
}

}  // namespace clover
