// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/draft_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "checkpoint/checkpoint.h"
#include "speculation/speculators/probability_bin.h"

namespace clover {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::shared_ptr<const Model> load(const std::string& name, const std::string& isa = "auto") {
  const std::string path = std::string(CLOVER_SOURCE_DIR) + "/tests/data/tiny/" + name;
  return Model::load(*open_checkpoint(path), make_cpu_backend({.threads = 1, .isa = isa}));
}

const std::shared_ptr<const Model>& draft_model() {
  static const std::shared_ptr<const Model> model = load("gguf_qwen3_q4_0.gguf");
  return model;
}

SpeculatorHost host(int64_t blocks = 64) {
  return {.target = draft_model(), .kv_blocks = blocks, .kv_type = DType::kF32};
}

std::vector<int32_t> random_text(int64_t count, uint64_t seed) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(
        static_cast<int32_t>(random_bits(stream_key(seed, 1), static_cast<uint64_t>(i)) % 64));
  return tokens;
}

std::vector<int32_t> block_range(int32_t first, int32_t count) {
  std::vector<int32_t> blocks(static_cast<size_t>(count));
  std::iota(blocks.rbegin(), blocks.rend(), first);
  return blocks;
}

// What the model says after a whole text read in one pass, best first.
std::vector<Candidate> reference(const std::vector<int32_t>& text, int32_t width) {
  const Model& model = *draft_model();
  const auto count = static_cast<int32_t>(text.size());
  const auto blocks = block_range(0, count / 16 + 1);
  const auto kv = model.backend().make_kv_store(
      model.kv_shape(static_cast<int64_t>(blocks.size()), DType::kF32));
  Batch batch;
  batch.sequences = {{blocks, 0, 0, count}};
  batch.tokens = text;
  for (int32_t i = 0; i < count; ++i) {
    batch.parents.push_back(i - 1);
    batch.wants_logits.push_back(i == count - 1);
  }
  const ForwardResult result = model.forward(batch, *kv);
  const float total = model.backend().log_sum_exp(result.logits)[0];
  std::vector<Candidate> out;
  const auto top = model.backend().top_k(result.logits, width);
  for (const TopEntry& entry : top[0]) out.push_back({entry.id, std::exp(entry.value - total), 0});
  return out;
}

void expect_same(const std::vector<Candidate>& drafted, const std::vector<int32_t>& text) {
  const auto expected = reference(text, static_cast<int32_t>(drafted.size()));
  ASSERT_FALSE(drafted.empty());
  for (size_t i = 0; i < drafted.size(); ++i) {
    EXPECT_EQ(drafted[i].token, expected[i].token);
    EXPECT_EQ(drafted[i].probability, expected[i].probability);  // bit for bit
  }
}

// Roots of all sequences of a round.
std::vector<std::vector<Candidate>> expand_roots(DraftModelSpeculator& draft,
                                                 std::span<const DraftSequence> round,
                                                 int32_t width) {
  draft.start(round);
  std::vector<DraftNode> roots;
  for (size_t s = 0; s < round.size(); ++s)
    roots.push_back({static_cast<int32_t>(s), -1, round[s].tokens.back()});
  std::vector<std::vector<Candidate>> out;
  draft.expand(roots, width, out);
  return out;
}

TEST(DraftModel, SaysWhatTheModelSaysAfterEveryNode) {
  DraftModelSpeculator draft(draft_model(), host());
  const std::vector<int32_t> a = random_text(37, 1), b = random_text(5, 2);
  const auto blocks_a = block_range(0, 5), blocks_b = block_range(9, 3);
  draft.begin(1);
  draft.begin(2);
  const std::vector<DraftSequence> round = {
      {.id = 1, .tokens = a, .blocks = blocks_a, .draft_slots = 20},
      {.id = 2, .tokens = b, .blocks = blocks_b, .draft_slots = 20}};
  auto out = expand_roots(draft, round, 3);
  // A tree of three depths in both, nodes of the sequences mixed.
  std::vector<DraftNode> nodes = {{0, -1, a.back()}, {1, -1, b.back()}};
  std::vector<std::vector<int32_t>> paths = {a, b};
  int32_t first = 0;
  for (int32_t depth = 0; depth < 4; ++depth) {
    std::vector<DraftNode> next;
    std::vector<std::vector<int32_t>> next_paths;
    for (size_t i = 0; i < nodes.size(); ++i) {
      ASSERT_EQ(out[i].size(), 3u);
      expect_same(out[i], paths[i]);
      for (size_t k = 0; k < (depth < 2 ? 2u : 1u); ++k) {
        next.push_back({nodes[i].sequence, first + static_cast<int32_t>(i), out[i][k].token});
        next_paths.push_back(paths[i]);
        next_paths.back().push_back(out[i][k].token);
      }
    }
    // Sequence 1's nodes stand between those of sequence 0.
    std::vector<size_t> order(next.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::reverse(order.begin() + 1, order.end());
    first += static_cast<int32_t>(nodes.size());
    nodes.clear();
    paths.clear();
    for (const size_t i : order) {
      nodes.push_back(next[i]);
      paths.push_back(next_paths[i]);
    }
    draft.expand(nodes, 3, out);
    ASSERT_EQ(out.size(), nodes.size());
    for (const auto& candidates : out)
      for (const Candidate& candidate : candidates) {
        EXPECT_GE(candidate.bin, 0);
        EXPECT_LT(candidate.bin, draft.bins());
      }
  }
}

// However many tokens each step commits and whichever rounds are skipped, what is stored are the
// committed tokens.
TEST(DraftModel, CatchesUpAfterAnyNumberOfTokens) {
  DraftModelSpeculator draft(draft_model(), host());
  const std::vector<int32_t> text = random_text(150, 3);
  const auto blocks = block_range(4, 12);
  draft.begin(1);
  size_t known = 20;
  for (uint64_t step = 0; known < text.size(); ++step) {
    const auto committed = std::span(text).first(known);
    if (random_bits(8, step) % 3 != 0) {
      const std::vector<DraftSequence> round = {
          {.id = 1, .tokens = committed, .blocks = blocks, .draft_slots = 8}};
      auto out = expand_roots(draft, round, 4);
      expect_same(out[0], {committed.begin(), committed.end()});
      EXPECT_EQ(draft.stored(1), static_cast<int64_t>(known));
      std::vector<DraftNode> nodes;  // leaves other tokens in the scratch slots
      for (const Candidate& candidate : out[0]) nodes.push_back({0, 0, candidate.token});
      draft.expand(nodes, 4, out);
    }
    known += 1 + random_bits(7, step) % 9;
  }
}

TEST(DraftModel, ReadsLongPromptsInChunks) {
  DraftModelSpeculator draft(draft_model(), host(128));
  const int64_t length = std::min<int64_t>(draft_model()->config().context, 700);
  const std::vector<int32_t> a = random_text(length, 4), b = random_text(length / 2, 5);
  const auto blocks_a = block_range(0, 50), blocks_b = block_range(50, 50);
  draft.begin(1);
  draft.begin(2);
  const std::vector<DraftSequence> round = {
      {.id = 1, .tokens = a, .blocks = blocks_a, .draft_slots = 1},
      {.id = 2, .tokens = b, .blocks = blocks_b, .draft_slots = 1}};
  const auto out = expand_roots(draft, round, 2);
  expect_same(out[0], a);
  expect_same(out[1], b);
}

// A root whose drafts were all wrong, or that was not drafted for at all, is asked again.
TEST(DraftModel, TheSameRootTwice) {
  DraftModelSpeculator draft(draft_model(), host());
  const std::vector<int32_t> text = random_text(33, 6);
  const auto blocks = block_range(0, 4);
  draft.begin(1);
  const std::vector<DraftSequence> round = {
      {.id = 1, .tokens = text, .blocks = blocks, .draft_slots = 4}};
  for (int i = 0; i < 3; ++i) expect_same(expand_roots(draft, round, 3)[0], text);
}

// Blocks pass from a finished sequence to a new one, and between sequences that lose them.
TEST(DraftModel, BlocksThatOthersWroteAreReadAnew) {
  DraftModelSpeculator draft(draft_model(), host(8));
  const std::vector<int32_t> a = random_text(40, 7), b = random_text(40, 8);
  const auto blocks = block_range(2, 4);
  std::vector<int32_t> swapped = blocks;
  std::swap(swapped[0], swapped[1]);
  const auto ask = [&](int64_t id, const std::vector<int32_t>& text,
                       const std::vector<int32_t>& table) {
    const std::vector<DraftSequence> round = {
        {.id = id, .tokens = text, .blocks = table, .draft_slots = 4}};
    expect_same(expand_roots(draft, round, 3)[0], text);
  };
  draft.begin(1);
  draft.begin(2);
  ask(1, a, blocks);
  ask(2, b, blocks);
  ask(1, a, blocks);
  ask(1, a, swapped);
  ask(2, b, swapped);
  draft.end(1);
  draft.begin(1);
  EXPECT_EQ(draft.stored(1), 0);
  ask(1, b, blocks);
}

TEST(DraftModel, NoMoreNodesThanSlots) {
  DraftModelSpeculator draft(draft_model(), host());
  const std::vector<int32_t> text = random_text(14, 9);
  const auto blocks = block_range(0, 1);  // room for two drafts
  draft.begin(1);
  const std::vector<DraftSequence> round = {
      {.id = 1, .tokens = text, .blocks = blocks, .draft_slots = 2}};
  auto out = expand_roots(draft, round, 3);
  ASSERT_EQ(out[0].size(), 3u);
  const std::vector<DraftNode> nodes = {
      {0, 0, out[0][0].token}, {0, 0, out[0][1].token}, {0, 0, out[0][2].token}};
  draft.expand(nodes, 3, out);
  EXPECT_EQ(out[0].size(), 3u);
  EXPECT_EQ(out[1].size(), 3u);
  EXPECT_THAT(out[2], IsEmpty());
  const std::vector<DraftNode> deeper = {{0, 1, 5}, {0, 3, 5}};
  draft.expand(deeper, 3, out);
  EXPECT_THAT(out[0], IsEmpty());
  EXPECT_THAT(out[1], IsEmpty());
  // Without any slot the root alone is answered.
  const std::vector<DraftSequence> none = {
      {.id = 1, .tokens = text, .blocks = blocks, .draft_slots = 0}};
  EXPECT_EQ(expand_roots(draft, none, 3)[0].size(), 3u);
}

TEST(DraftModel, NoDraftsBeyondTheModelsContext) {
  const int64_t context = draft_model()->config().context;
  DraftModelSpeculator draft(draft_model(), host(context / 16 + 4));
  const auto blocks = block_range(0, static_cast<int32_t>(context / 16 + 4));
  draft.begin(1);
  draft.begin(2);
  const std::vector<int32_t> fits = random_text(context - 1, 10),
                             beyond = random_text(context + 1, 12);
  std::vector<DraftSequence> round = {
      {.id = 1, .tokens = fits, .blocks = blocks, .draft_slots = 8}};
  auto out = expand_roots(draft, round, 2);
  ASSERT_EQ(out[0].size(), 2u);
  std::vector<DraftNode> nodes = {{0, 0, out[0][0].token}};
  draft.expand(nodes, 2, out);  // the last position
  ASSERT_EQ(out[0].size(), 2u);
  nodes = {{0, 1, out[0][0].token}};
  draft.expand(nodes, 2, out);
  EXPECT_THAT(out[0], IsEmpty());
  round = {{.id = 2, .tokens = beyond, .blocks = blocks, .draft_slots = 8}};
  EXPECT_THAT(expand_roots(draft, round, 2)[0], IsEmpty());
  EXPECT_EQ(draft.stored(2), 0);
}

// A sequence whose blocks hold the same beginning, read for another one, reads only what is new.
TEST(DraftModel, WhatAnotherSequenceReadIsFoundE1) {
  DraftModelSpeculator draft(draft_model(), host());
  const std::vector<int32_t> text = random_text(40, 11);
  std::vector<int32_t> other = text;
  other[35] = (other[35] + 1) % 64;
  const std::vector<int32_t> mine = {0, 1, 2}, theirs = {0, 1, 3};
  draft.begin(1);
  draft.begin(2);
  const std::vector<DraftSequence> first = {
      {.id = 1, .tokens = text, .blocks = mine, .draft_slots = 0}};
  expand_roots(draft, first, 3);
  const std::vector<DraftSequence> second = {
      {.id = 2, .tokens = other, .blocks = theirs, .draft_slots = 0}};
  const auto shared = expand_roots(draft, second, 3);
  DraftModelSpeculator fresh(draft_model(), host());
  fresh.begin(2);
  const auto alone = expand_roots(fresh, second, 3);
  ASSERT_EQ(shared[0].size(), alone[0].size());
  for (size_t i = 0; i < alone[0].size(); ++i) {
    EXPECT_EQ(shared[0][i].token, alone[0][i].token);
    EXPECT_EQ(shared[0][i].probability, alone[0][i].probability);
  }
}

TEST(DraftModel, WidthsAndBins) {
  DraftModelSpeculator draft(draft_model(), host());
  const std::vector<int32_t> text = random_text(9, 11);
  const auto blocks = block_range(0, 2);
  draft.begin(1);
  const std::vector<DraftSequence> round = {
      {.id = 1, .tokens = text, .blocks = blocks, .draft_slots = 8}};
  for (const int32_t width : {0, 1, 7, 16, 100}) {
    const auto out = expand_roots(draft, round, width);
    ASSERT_EQ(out[0].size(), static_cast<size_t>(std::min(width, 16)));
    std::set<int32_t> seen;
    for (const Candidate& candidate : out[0]) {
      EXPECT_TRUE(seen.insert(candidate.token).second);
      EXPECT_LT(candidate.bin, draft.bins() / kBinDepths);  // depth 0
    }
  }
}

template <typename Action>
void expect_refused(Action action, const std::string& message) {
  try {
    action();
    FAIL() << "accepted, expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

TEST(DraftModel, RefusesAnotherVocabulary) {
  std::shared_ptr<const Model> other;
  for (const char* name : {"baichuan2_7b", "qwen2", "llama2", "gguf_llama_q4_k.gguf"}) {
    other = load(name);
    if (other->config().vocab != draft_model()->config().vocab) break;
  }
  ASSERT_NE(other->config().vocab, draft_model()->config().vocab);
  expect_refused([&] { DraftModelSpeculator(other, host()); },
                 fmt::format("vocabulary of {} tokens, the target one of {}", other->config().vocab,
                             draft_model()->config().vocab));
}

TEST(DraftModel, RefusesWhatItDoesNotKnow) {
  DraftModelSpeculator draft(draft_model(), host(8));
  const std::vector<int32_t> text = random_text(20, 12);
  const auto blocks = block_range(0, 2);
  const auto start = [&](DraftSequence sequence) {
    const std::vector<DraftSequence> round = {sequence};
    draft.start(round);
  };
  const DraftSequence good = {.id = 1, .tokens = text, .blocks = blocks, .draft_slots = 12};
  expect_refused([&] { start(good); }, "no sequence 1");
  expect_refused([&] { draft.end(1); }, "no sequence 1");
  draft.begin(1);
  expect_refused([&] { draft.begin(1); }, "already has a sequence 1");
  DraftSequence bad = good;
  bad.draft_slots = 13;
  expect_refused([&] { start(bad); }, "KV blocks for 32 tokens, but drafts 13 behind 20");
  bad.draft_slots = -1;
  expect_refused([&] { start(bad); }, "drafts -1");
  bad = good;
  bad.tokens = {};
  expect_refused([&] { start(bad); }, "behind 0");
  for (const int32_t block : {-1, 8}) {
    const std::vector<int32_t> outside = {0, block};
    bad = good;
    bad.blocks = outside;
    expect_refused([&] { start(bad); }, fmt::format("KV block {}", block));
  }
  std::vector<int32_t> alien = text;
  alien[3] = static_cast<int32_t>(draft_model()->config().vocab);
  bad = good;
  bad.tokens = alien;
  expect_refused([&] { start(bad); }, "is not in [0,");
  // After all that a good round works.
  const std::vector<DraftSequence> round = {good};
  expect_same(expand_roots(draft, round, 3)[0], text);
  std::vector<std::vector<Candidate>> out;
  const std::vector<DraftNode> orphan = {{0, 7, 1}};
  expect_refused([&] { draft.expand(orphan, 3, out); }, "draft node 7");
}

}  // namespace
}  // namespace clover
