// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/model.h"

namespace clover {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<int32_t> kBlocks = {7, 3};  // slots 0 … 31

Batch batch_of(int64_t committed, std::vector<int32_t> parents) {
  Batch batch;
  batch.sequences = {{kBlocks, committed, 0, static_cast<int64_t>(parents.size())}};
  batch.tokens.assign(parents.size(), 1);
  batch.wants_logits.assign(parents.size(), 1);
  batch.parents = std::move(parents);
  return batch;
}

TEST(AttentionPlan, PromptIsLinear) {
  const AttentionPlan plan = make_attention_plan(batch_of(0, {-1, 0, 1, 2}));
  EXPECT_THAT(plan.slot, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(plan.position, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(plan.linear_len, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(plan.tail_begin, ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(plan.tail, IsEmpty());
}

// The example in backend.h.
TEST(AttentionPlan, SecondChildSkipsItsBrother) {
  const AttentionPlan plan = make_attention_plan(batch_of(5, {-1, 0, 0}));
  EXPECT_THAT(plan.slot, ElementsAre(5, 6, 7));
  EXPECT_THAT(plan.position, ElementsAre(5, 6, 6));
  EXPECT_THAT(plan.linear_len, ElementsAre(6, 7, 6));
  EXPECT_THAT(plan.tail_begin, ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(plan.tail, ElementsAre(7));
}

// A9: a node's position is committed + depth, and its path holds its own ancestors only.
TEST(AttentionPlan, DeepTree) {
  //   0 ── 1 ── 3 ── 5
  //   │    └─── 4
  //   └─── 2 ── 6
  const AttentionPlan plan = make_attention_plan(batch_of(10, {-1, 0, 0, 1, 1, 3, 2}));
  EXPECT_THAT(plan.position, ElementsAre(10, 11, 11, 12, 12, 13, 12));
  EXPECT_THAT(plan.linear_len, ElementsAre(11, 12, 11, 12, 12, 12, 11));
  EXPECT_THAT(plan.tail_begin, ElementsAre(0, 0, 0, 1, 2, 3, 5, 7));
  EXPECT_THAT(plan.tail, ElementsAre(12, 13, 14, 13, 15, 12, 16));
}

TEST(AttentionPlan, SeveralRoots) {
  const AttentionPlan plan = make_attention_plan(batch_of(4, {-1, -1, 1, 0}));
  EXPECT_THAT(plan.position, ElementsAre(4, 4, 5, 5));
  EXPECT_THAT(plan.linear_len, ElementsAre(5, 4, 4, 5));
  EXPECT_THAT(plan.tail, ElementsAre(5, 5, 6, 7));
}

// The example in batch.h.
TEST(AttentionPlan, TreeAndPromptTogether) {
  Batch batch;
  batch.sequences = {{kBlocks, 5, 0, 3}, {kBlocks, 0, 3, 2}};
  batch.tokens = {1, 2, 3, 4, 5};
  batch.parents = {-1, 0, 0, -1, 3};
  batch.wants_logits = {1, 1, 1, 0, 1};
  const AttentionPlan plan = make_attention_plan(batch);
  ASSERT_EQ(plan.sequences.size(), 2u);
  EXPECT_EQ(plan.sequences[1].first_row, 3);
  EXPECT_EQ(plan.sequences[1].rows, 2);
  EXPECT_THAT(plan.slot, ElementsAre(5, 6, 7, 0, 1));
  EXPECT_THAT(plan.position, ElementsAre(5, 6, 6, 0, 1));
  EXPECT_THAT(plan.linear_len, ElementsAre(6, 7, 6, 1, 2));
  EXPECT_THAT(plan.tail_begin, ElementsAre(0, 0, 0, 1, 1, 1));
}

// The second example in batch.h: the same paths as in one pass.
TEST(AttentionPlan, ChildrenOfAStoredRow) {
  const std::vector<int32_t> stored = {-1};
  Batch batch = batch_of(5, {Batch::stored_row(0), Batch::stored_row(0)});
  batch.sequences[0].stored_parents = stored;
  const AttentionPlan plan = make_attention_plan(batch);
  EXPECT_THAT(plan.slot, ElementsAre(6, 7));
  EXPECT_THAT(plan.position, ElementsAre(6, 6));
  EXPECT_THAT(plan.linear_len, ElementsAre(7, 6));
  EXPECT_THAT(plan.tail_begin, ElementsAre(0, 0, 1));
  EXPECT_THAT(plan.tail, ElementsAre(7));
}

// The tree of DeepTree, its first `cut` rows sent before: the other rows' paths are those of the
// whole tree.
TEST(AttentionPlan, AnyCutOfATreeKeepsItsPaths) {
  const std::vector<int32_t> parents = {-1, 0, 0, 1, 1, 3, 2};
  const AttentionPlan whole = make_attention_plan(batch_of(10, parents));
  for (int32_t cut = 0; cut < 7; ++cut) {
    SCOPED_TRACE(cut);
    const std::vector<int32_t> stored(parents.begin(), parents.begin() + cut);
    std::vector<int32_t> rest;
    for (auto it = parents.begin() + cut; it != parents.end(); ++it)
      rest.push_back(*it < 0 ? -1 : *it < cut ? Batch::stored_row(*it) : *it - cut);
    Batch batch = batch_of(10, rest);
    batch.sequences[0].stored_parents = stored;
    const AttentionPlan plan = make_attention_plan(batch);
    ASSERT_EQ(plan.rows(), 7 - cut);
    for (size_t r = 0; r < rest.size(); ++r) {
      const size_t w = r + static_cast<size_t>(cut);
      EXPECT_EQ(plan.slot[r], whole.slot[w]);
      EXPECT_EQ(plan.position[r], whole.position[w]);
      EXPECT_EQ(plan.linear_len[r], whole.linear_len[w]);
      const auto tail = [](const AttentionPlan& p, size_t row) {
        return std::vector<int64_t>(p.tail.begin() + p.tail_begin[row],
                                    p.tail.begin() + p.tail_begin[row + 1]);
      };
      EXPECT_EQ(tail(plan, r), tail(whole, w));
    }
  }
}

void expect_refused(const Batch& batch, const std::string& message) {
  try {
    make_attention_plan(batch);
    FAIL() << "accepted, expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

TEST(AttentionPlan, RefusesParentsThatAreNotEarlierRowsOfTheSequence) {
  expect_refused(batch_of(0, {0}), "parent 0 of row 0");
  expect_refused(batch_of(0, {-1, 2, 1}), "parent 2 of row 1");
  expect_refused(batch_of(0, {-1, -2}), "parent -2 of row 1");
  Batch batch = batch_of(0, {-1, 0, 0});
  batch.sequences = {{kBlocks, 0, 0, 2}, {kBlocks, 0, 2, 1}};
  expect_refused(batch, "parent 0 of row 2");
}

TEST(AttentionPlan, RefusesStoredRowsThatDoNotExist) {
  const std::vector<int32_t> stored = {-1, 0};
  Batch batch = batch_of(3, {Batch::stored_row(2)});
  batch.sequences[0].stored_parents = stored;
  expect_refused(batch, "parent -4 of row 0");
  batch.parents = {INT32_MIN};
  expect_refused(batch, "parent -2147483648 of row 0");
  for (const std::vector<int32_t>& broken : {std::vector<int32_t>{0}, {-1, 1}, {-1, -2}}) {
    batch.parents = {-1};
    batch.sequences[0].stored_parents = broken;
    expect_refused(batch, "of stored row");
  }
  batch = batch_of(29, {-1, 0});
  batch.sequences[0].stored_parents = stored;
  expect_refused(batch, "KV blocks for 32 tokens, but needs 29 + 4");
}

TEST(AttentionPlan, RefusesRowsThatDoNotFit) {
  expect_refused(batch_of(31, {-1, 0}), "KV blocks for 32 tokens, but needs 31 + 2");
  expect_refused(batch_of(INT64_MAX, {-1}), "KV blocks for 32 tokens");
  expect_refused(batch_of(-1, {-1}), "needs -1 + 1");
  Batch batch = batch_of(0, {-1, 0});
  batch.sequences[0].rows = 1;
  expect_refused(batch, "1 of 2 rows belong to no sequence");
  batch.sequences[0].rows = 3;
  expect_refused(batch, "claims rows 0 + 3");
  batch.sequences[0].rows = 0;
  expect_refused(batch, "claims rows 0 + 0");
  batch.sequences = {{kBlocks, 0, 1, 1}};
  expect_refused(batch, "expected to start at 0");
  batch = batch_of(0, {-1, 0});
  batch.parents.pop_back();
  expect_refused(batch, "2 tokens, but 1 parents");
}

}  // namespace
}  // namespace clover
