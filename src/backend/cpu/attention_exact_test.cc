// SPDX-License-Identifier: Apache-2.0
// A row's attention depends on its path alone, bit for bit: not on how the path lies in the slots,
// on the batch, on the threads or on what other slots hold.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "backend/cpu/attention_fixture.h"

namespace clover {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<AttentionCase> cases() {
  std::vector<AttentionCase> all;
  int round = 0;
  for (const std::string& isa : cpu_isas()) {
    for (const DType type : {DType::kF16, DType::kF32}) {
      for (const int64_t window : {0, 1, 5, 18}) {
        const int64_t ratio = 1 + round % 3;
        all.push_back({2 * ratio, 2, round % 2 == 0 ? 20 : 64, type, window, round % 4 == 1, isa,
                       1 + round % 3});
        ++round;
      }
    }
  }
  return all;
}

// The other side of a comparison runs on one thread.
AttentionCase on_one_thread(AttentionCase c) {
  c.threads = 1;
  return c;
}

std::string describe(const AttentionCase& c) {
  return fmt::format("{}, {} threads, {} heads of {}, {}, window {}, alibi {}", c.isa, c.threads,
                     c.heads, c.head_dim, dtype_name(c.type), c.window, c.alibi);
}

// Every node of a tree against the same path as a chain; prompts end before, at and after a block
// edge, so that tails cross blocks.
TEST(AttentionExact, A9TreeNodeEqualsItsPathAsAChain) {
  for (const AttentionCase& c : cases()) {
    SCOPED_TRACE(describe(c));
    for (const int64_t prompt : {0, 7, 16, 31}) {
      AttentionWorld world(c);
      AttentionWorld plain(on_one_thread(c));
      const std::vector<int64_t> tokens = first_slots(prompt);
      if (prompt > 0) {
        world.run({chain(tokens, 0, prompt)});
        plain.run({chain(tokens, 0, prompt)});
      }
      const RandomTree tree(prompt, 25, 1000, static_cast<uint64_t>(prompt + c.window));
      const std::vector<float> out = world.run({tree.rows});
      for (size_t i = 0; i < tree.rows.size(); ++i) {
        std::vector<int64_t> path = tokens;
        path.insert(path.end(), tree.tokens[i].begin(), tree.tokens[i].end());
        const auto length = static_cast<int64_t>(path.size());
        const std::vector<float> along = plain.run({chain(path, prompt, length)});
        ASSERT_TRUE(same_bits(row_of(out, world.columns(), static_cast<int64_t>(i)),
                              row_of(along, world.columns(), length - 1 - prompt)))
            << "node " << i << " below " << prompt;
      }
    }
  }
}

TEST(AttentionExact, A1ChunksOfAnySizeGiveTheSameRows) {
  const int64_t length = 45;
  const std::vector<int64_t> tokens = first_slots(length);
  for (const AttentionCase& c : cases()) {
    SCOPED_TRACE(describe(c));
    AttentionWorld whole(on_one_thread(c));
    const std::vector<float> expected = whole.run({chain(tokens, 0, length)});
    for (const int64_t chunk : {1, 2, 3, 7, 8, 9, 16, 17}) {
      AttentionWorld world(c);
      std::vector<float> all;
      for (int64_t at = 0; at < length; at += chunk) {
        const std::vector<float> out = world.run({chain(tokens, at, std::min(at + chunk, length))});
        all.insert(all.end(), out.begin(), out.end());
      }
      ASSERT_TRUE(same_bits(all, expected)) << "chunks of " << chunk;
    }
  }
}

TEST(AttentionExact, A1SequencesOfABatchDoNotSeeEachOther) {
  const std::vector<int64_t> lengths = {33, 1, 50, 16};
  for (const AttentionCase& c : cases()) {
    SCOPED_TRACE(describe(c));
    AttentionWorld together(c);
    AttentionWorld apart(on_one_thread(c));
    std::vector<SequenceRows> prompts;
    std::vector<SequenceRows> trees;
    for (size_t s = 0; s < lengths.size(); ++s) {
      std::vector<int64_t> tokens = first_slots(lengths[s]);
      for (int64_t& t : tokens) t += 100 * static_cast<int64_t>(s);
      prompts.push_back(chain(tokens, 0, lengths[s]));
      trees.push_back(
          RandomTree(lengths[s], static_cast<int64_t>(3 * s + 1), 5000 + 100 * s, s).rows);
    }
    for (const auto& batch : {prompts, trees}) {
      const std::vector<float> out = together.run(batch);
      std::vector<float> single;
      for (size_t s = 0; s < batch.size(); ++s) {
        std::vector<SequenceRows> only(s + 1);
        only[s] = batch[s];
        const std::vector<float> part = apart.run(only);
        single.insert(single.end(), part.begin(), part.end());
      }
      ASSERT_TRUE(same_bits(out, single));
    }
  }
}

TEST(AttentionExact, ContentsOfUnseenSlotsDoNotMatter) {
  for (const AttentionCase& c : cases()) {
    SCOPED_TRACE(describe(c));
    const std::vector<int64_t> tokens = first_slots(21);
    AttentionWorld clean(on_one_thread(c));
    AttentionWorld dirty(c);
    // What earlier requests left behind, the worst first.
    const float left[] = {kNan, kInf, -kInf, 3e38f, -3e38f};
    std::vector<int64_t> garbage;
    for (int64_t i = 0; i < 60; ++i) {
      garbage.push_back(9000 + i);
      dirty.special[{'k', 9000 + i}] = left[i % 5];
      dirty.special[{'v', 9000 + i}] = left[(i + 1) % 5];
    }
    dirty.run({chain(garbage, 0, 60)});
    const std::vector<float> expected = clean.run({chain(tokens, 0, 21)});
    EXPECT_TRUE(same_bits(dirty.run({chain(tokens, 0, 21)}), expected));
    // A tree whose siblings hold the same garbage in the same batch.
    const RandomTree tree(21, 12, 1000, 3);
    SequenceRows alone = {tree.rows[11]};
    for (const int64_t slot : tree.rows[11].path) {
      if (slot < 21 || slot == tree.rows[11].slot) continue;
      clean.run({{tree.rows[static_cast<size_t>(slot - 21)]}});
    }
    for (size_t i = 0; i < tree.rows.size(); ++i) {
      const auto& path = tree.rows[11].path;
      if (std::find(path.begin(), path.end(), tree.rows[i].slot) != path.end()) continue;
      dirty.special[{'q', tree.rows[i].token}] = kNan;
      dirty.special[{'k', tree.rows[i].token}] = kNan;
      dirty.special[{'v', tree.rows[i].token}] = kInf;
    }
    const std::vector<float> want = clean.run({alone});
    const std::vector<float> out = dirty.run({tree.rows});
    EXPECT_TRUE(same_bits(row_of(out, clean.columns(), 11), want));
    for (const float x : want) EXPECT_TRUE(std::isfinite(x));
  }
}

// A token that some rows of a tile see and others no longer: infinite or NaN, it must not leak
// through a weight of zero.
TEST(AttentionExact, ValuesOutsideTheWindowDoNotLeak) {
  for (AttentionCase c : cases()) {
    if (c.window == 0) continue;
    SCOPED_TRACE(describe(c));
    const std::vector<int64_t> tokens = first_slots(40);
    for (const float bad : {kNan, kInf, -kInf}) {
      AttentionWorld world(c);
      AttentionWorld clean(on_one_thread(c));
      world.special[{'v', 3}] = bad;
      world.special[{'k', 3}] = bad;
      const std::vector<float> out = world.run({chain(tokens, 0, 40)});
      const std::vector<float> want = clean.run({chain(tokens, 0, 40)});
      for (int64_t r = 0; r < 40; ++r) {
        if (r >= 3 && r < 3 + c.window) continue;
        ASSERT_TRUE(same_bits(row_of(out, world.columns(), r), row_of(want, world.columns(), r)))
            << "row " << r << " with " << bad;
      }
    }
  }
}

TEST(AttentionExact, NanInAQueryStaysInItsRow) {
  for (const AttentionCase& c : cases()) {
    SCOPED_TRACE(describe(c));
    const std::vector<int64_t> tokens = first_slots(20);
    AttentionWorld world(c);
    AttentionWorld clean(on_one_thread(c));
    world.special[{'q', 9}] = kNan;
    const std::vector<float> out = world.run({chain(tokens, 0, 20)});
    const std::vector<float> want = clean.run({chain(tokens, 0, 20)});
    for (int64_t r = 0; r < 20; ++r) {
      if (r != 9) {
        ASSERT_TRUE(same_bits(row_of(out, world.columns(), r), row_of(want, world.columns(), r)));
        continue;
      }
      for (const float x : row_of(out, world.columns(), r)) ASSERT_TRUE(std::isnan(x));
    }
  }
}

// Beyond the store's range keys and values are clamped.
TEST(AttentionExact, HugeValuesAreStoredAsTheLargest) {
  for (const DType type : {DType::kF16, DType::kF32}) {
    const float largest = type == DType::kF16 ? 65504.0f : std::numeric_limits<float>::max();
    for (const std::string& isa : cpu_isas()) {
      AttentionCase c{2, 1, 20, type, 0, false, isa, 1};
      AttentionWorld a(c);
      AttentionWorld b(c);
      a.special[{'v', 2}] = kInf;
      b.special[{'v', 2}] = largest;
      a.special[{'v', 5}] = type == DType::kF16 ? -1e6f : -kInf;
      b.special[{'v', 5}] = -largest;
      a.special[{'k', 7}] = type == DType::kF16 ? 7e4f : 1e20f;
      b.special[{'k', 7}] = type == DType::kF16 ? 65504.0f : 1e20f;
      const SequenceRows rows = chain(first_slots(12), 0, 12);
      EXPECT_TRUE(same_bits(a.run({rows}), b.run({rows}))) << isa << " " << dtype_name(type);
    }
  }
}

// An accepted path moved to where a chain would have put it continues as the chain.
TEST(AttentionExact, MovedTokensEqualAChain) {
  for (const AttentionCase& c : cases()) {
    SCOPED_TRACE(describe(c));
    for (const int64_t prompt : {7, 14, 16}) {
      AttentionWorld world(c);
      AttentionWorld plain(on_one_thread(c));
      std::vector<int64_t> tokens = first_slots(prompt);
      const RandomTree tree(prompt, 25, 1000, static_cast<uint64_t>(prompt));
      size_t deepest = 0;
      for (size_t i = 0; i < tree.rows.size(); ++i)
        if (tree.rows[i].path.size() > tree.rows[deepest].path.size()) deepest = i;
      for (int64_t layer = 0; layer < AttentionWorld::kLayers; ++layer) {
        world.run({chain(tokens, 0, prompt)}, layer);
        world.run({tree.rows}, layer);
      }
      // In path order, so a target is never a source still to come.
      std::vector<KvStore::Move> moves;
      const auto& path = tree.rows[deepest].path;
      for (size_t i = static_cast<size_t>(prompt); i < path.size(); ++i)
        if (path[i] != static_cast<int64_t>(i))
          moves.push_back({world.address(0, path[i]), world.address(0, static_cast<int64_t>(i))});
      ASSERT_FALSE(moves.empty());
      world.store().move(moves);
      tokens.insert(tokens.end(), tree.tokens[deepest].begin(), tree.tokens[deepest].end());
      tokens.push_back(7777);
      const auto length = static_cast<int64_t>(tokens.size());
      for (int64_t layer = 0; layer < AttentionWorld::kLayers; ++layer) {
        plain.run({chain(tokens, 0, length - 1)}, layer);
        const SequenceRows next = chain(tokens, length - 1, length);
        ASSERT_TRUE(same_bits(world.run({next}, layer), plain.run({next}, layer)))
            << "layer " << layer << " after " << prompt;
      }
    }
  }
}

}  // namespace
}  // namespace clover
