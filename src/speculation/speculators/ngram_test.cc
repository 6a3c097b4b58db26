// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/ngram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "speculation/speculators/observed_for_tests.h"

namespace clover {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

NgramIndex index_of(std::span<const int32_t> tokens) {
  NgramIndex index;
  for (const int32_t token : tokens) index.append(token);
  return index;
}

std::vector<NgramIndex::Guess> guesses_of(const NgramIndex& index,
                                          std::span<const int32_t> context) {
  std::vector<NgramIndex::Guess> out;
  index.guesses(context, out);
  return out;
}

std::vector<int32_t> tokens_of(std::span<const NgramIndex::Guess> guesses) {
  std::vector<int32_t> tokens;
  for (const auto& guess : guesses) tokens.push_back(guess.token);
  return tokens;
}

// `count` tokens below `vocab`, skewed so that texts repeat.
std::vector<int32_t> random_text(int64_t count, int32_t vocab, uint64_t seed) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t key = stream_key(seed, static_cast<uint64_t>(i));
    const double u = random_uniform(key, 0);
    if (tokens.size() > 40 && u < 0.1) {  // copy a passage
      const auto from = static_cast<size_t>(random_uniform(key, 1) * double(tokens.size() - 20));
      for (size_t k = 0; k < 17; ++k) tokens.push_back(tokens[from + k]);
    } else {
      tokens.push_back(static_cast<int32_t>(random_uniform(key, 2) * u * vocab));
    }
  }
  return tokens;
}

TEST(NgramIndex, KnowsNothingOfNothing) {
  const NgramIndex empty;
  EXPECT_THAT(guesses_of(empty, {}), IsEmpty());
  EXPECT_THAT(guesses_of(empty, std::vector<int32_t>{1, 2, 3}), IsEmpty());
  const NgramIndex one = index_of(std::vector<int32_t>{5});
  EXPECT_THAT(guesses_of(one, one.tokens()), IsEmpty());
}

// a b c a b: after "a b" came c.
TEST(NgramIndex, FindsWhatFollowedBefore) {
  const std::vector<int32_t> text = {1, 2, 3, 1, 2};
  const NgramIndex index = index_of(text);
  const auto guesses = guesses_of(index, text);
  ASSERT_EQ(guesses.size(), 1u);
  EXPECT_EQ(guesses[0].token, 3);
  EXPECT_EQ(guesses[0].level, 1);  // two tokens
  // One occurrence of "b": 1 / (1 + 4); then of "a b": (1 + 2 * 0.2) / (1 + 2).
  EXPECT_FLOAT_EQ(guesses[0].probability, (1.0f + 2.0f * 0.2f) / 3.0f);
}

// After "x" came 7 twice and 8 once; after "9 x" came 8.
TEST(NgramIndex, LongerContextsOverruleShorterOnes) {
  const std::vector<int32_t> text = {1, 7, 1, 7, 9, 1, 8, 9, 1};
  const auto guesses = guesses_of(index_of(text), text);
  EXPECT_THAT(tokens_of(guesses), ElementsAre(8, 7));
  EXPECT_EQ(guesses[0].level, 1);
  EXPECT_EQ(guesses[1].level, 0);
  EXPECT_LT(guesses[0].probability + guesses[1].probability, 1.0f);
}

TEST(NgramIndex, LongRepeatsAreNearlySure) {
  std::vector<int32_t> text;
  for (int32_t i = 0; i < 60; ++i) text.push_back(100 + i);
  for (int32_t i = 0; i < 40; ++i) text.push_back(100 + i);
  const NgramIndex index = index_of(text);
  for (const size_t known : {1, 4, 9, 13, 33}) {
    const auto guesses = guesses_of(index, std::span(text).subspan(60, known));
    ASSERT_EQ(guesses.size(), 1u);
    EXPECT_EQ(guesses[0].token, 100 + static_cast<int32_t>(known));
    EXPECT_EQ(
        NgramIndex::kLengths[static_cast<size_t>(guesses[0].level)] <= static_cast<int32_t>(known),
        true);
    if (known == 33) {
      EXPECT_EQ(guesses[0].level, NgramIndex::kLevels - 1);
      EXPECT_GT(guesses[0].probability, 0.99f);
    }
  }
}

TEST(NgramIndex, VocabularyExtremes) {
  const std::vector<int32_t> text = {0, INT32_MAX, 0, INT32_MAX, INT32_MIN, 0, INT32_MAX};
  const auto guesses = guesses_of(index_of(text), text);
  EXPECT_THAT(tokens_of(guesses), ::testing::UnorderedElementsAre(0, INT32_MIN));
}

// Every occurrence that a search of the text finds, and no other.
TEST(NgramIndex, EqualsANaiveSearchOfRandomTexts) {
  for (const int32_t vocab : {2, 7, 300, 50000}) {
    SCOPED_TRACE(vocab);
    const std::vector<int32_t> text = random_text(1500, vocab, 11);
    NgramIndex index;
    std::vector<int32_t> found;
    for (size_t n = 0; n < text.size(); ++n) {
      index.append(text[n]);
      if (n % 13 != 0) continue;
      const auto known = std::span(text).first(n + 1);
      for (size_t k = 0; k < NgramIndex::kOrders.size(); ++k) {
        const auto length = static_cast<size_t>(NgramIndex::kOrders[k]);
        std::vector<int32_t> expected;
        for (size_t end = n; end >= length && known.size() >= length; --end) {
          const auto there = known.subspan(end - length, length);
          const auto here = known.last(length);
          if (expected.size() < NgramIndex::kOccurrences &&
              std::equal(here.begin(), here.end(), there.begin()))
            expected.push_back(static_cast<int32_t>(end));
        }
        index.occurrences(static_cast<int32_t>(k), known, found);
        ASSERT_EQ(found, expected) << "order " << length << " at " << n;
      }
    }
  }
}

// Each guess followed a context of its level's length, and none of the next; no token twice; the
// probabilities fall and leave room for others.
TEST(NgramIndex, GuessesAreTrueOfRandomTexts) {
  for (const int32_t vocab : {2, 30}) {
    const std::vector<int32_t> text = random_text(600, vocab, 5);
    const NgramIndex index = index_of(text);
    for (size_t n = 40; n < text.size(); n += 7) {
      const auto context = std::span(text).first(n).last(32);
      const auto guesses = guesses_of(index, context);
      std::set<int32_t> seen;
      float sum = 0.0f;
      for (size_t i = 0; i < guesses.size(); ++i) {
        EXPECT_TRUE(seen.insert(guesses[i].token).second);
        if (i > 0) {
          EXPECT_LE(guesses[i].probability, guesses[i - 1].probability);
        }
        EXPECT_GT(guesses[i].probability, 0.0f);
        sum += guesses[i].probability;
        const auto length =
            static_cast<size_t>(NgramIndex::kLengths[static_cast<size_t>(guesses[i].level)]);
        const auto key = context.last(length);
        bool followed = false;
        for (size_t end = length; end < text.size() && !followed; ++end)
          followed = text[end] == guesses[i].token &&
                     std::equal(key.begin(), key.end(), text.begin() + (end - length));
        EXPECT_TRUE(followed);
      }
      // The hopeless are lifted to 0.0001.
      EXPECT_LE(sum, 1.0001f + 0.0001f * static_cast<float>(guesses.size()));
    }
  }
}

TEST(NgramIndex, AMillionOfOneTokenTakesLinearMemoryAndShortLookups) {
  NgramIndex index;
  for (int i = 0; i < (1 << 20); ++i) index.append(7);
  EXPECT_LT(index.bytes(), int64_t{100} << 20);
  const std::vector<int32_t> context(32, 7);
  for (int i = 0; i < 10000; ++i) {
    const auto guesses = guesses_of(index, context);
    ASSERT_EQ(guesses.size(), 1u);
    EXPECT_EQ(guesses[0].token, 7);
  }
}

TEST(NgramIndex, MemoryOfDistinctTokensIsLinear) {
  NgramIndex index;
  for (int32_t i = 0; i < 100000; ++i) index.append(i);
  EXPECT_LT(index.bytes(), int64_t{160} * 100000);
}

DraftSequence drafting(int64_t id, std::span<const int32_t> tokens) {
  return {.id = id, .tokens = tokens, .blocks = {}, .draft_slots = 25};
}

TEST(NgramSpeculator, ContinuesDraftedPaths) {
  NgramSpeculator ngram;
  ngram.begin(4);
  const std::vector<int32_t> text = {1, 2, 3, 4, 5, 1};
  const std::vector<DraftSequence> round = {drafting(4, text)};
  ngram.start(round);
  std::vector<std::vector<Candidate>> out;
  int32_t token = 1;
  for (int32_t depth = 0; depth < 5; ++depth) {
    const std::vector<DraftNode> nodes = {{0, depth - 1, token}};
    ngram.expand(nodes, 4, out);
    ASSERT_EQ(out.size(), 1u);
    ASSERT_EQ(out[0].size(), 1u);
    token = out[0][0].token;
    EXPECT_EQ(token, text[static_cast<size_t>(depth + 1)]);
    EXPECT_GE(out[0][0].bin, 0);
    EXPECT_LT(out[0][0].bin, ngram.bins());
  }
  // Behind "… 5 1" the path has left what is committed; it goes on from 1 again.
  EXPECT_EQ(token, 1);
}

TEST(NgramSpeculator, KeepsSequencesApart) {
  NgramSpeculator ngram;
  const std::vector<int32_t> a = {1, 2, 1}, b = {1, 3, 1}, c = {1};
  for (const int64_t id : {1, 2, 3}) ngram.begin(id);
  const std::vector<DraftSequence> round = {drafting(2, b), drafting(3, c), drafting(1, a)};
  ngram.start(round);
  std::vector<std::vector<Candidate>> out;
  const std::vector<DraftNode> roots = {{2, -1, 1}, {1, -1, 1}, {0, -1, 1}};
  ngram.expand(roots, 4, out);
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].at(0).token, 2);
  EXPECT_THAT(out[1], IsEmpty());
  EXPECT_EQ(out[2].at(0).token, 3);
}

TEST(NgramSpeculator, GivesAtMostWidthCandidates) {
  NgramSpeculator ngram;
  ngram.begin(1);
  std::vector<int32_t> text;
  for (int32_t i = 0; i < 12; ++i) text.insert(text.end(), {99, i});
  text.push_back(99);
  const std::vector<DraftSequence> round = {drafting(1, text)};
  std::vector<std::vector<Candidate>> out;
  for (const int32_t width : {0, 1, 5, 12, 100}) {
    ngram.start(round);
    const std::vector<DraftNode> roots = {{0, -1, 99}};
    ngram.expand(roots, width, out);
    EXPECT_EQ(out[0].size(), static_cast<size_t>(std::min(width, 12)));
  }
}

// Drafts leave no trace: whatever is accepted, the index is that of the committed tokens.
TEST(NgramSpeculator, StateFollowsCommittedTokensOnly) {
  const std::vector<int32_t> text = random_text(900, 40, 3);
  NgramSpeculator ngram;
  ngram.begin(1);
  size_t known = 31;
  std::vector<std::vector<Candidate>> out;
  for (uint64_t step = 0; known < text.size() - 9; ++step) {
    const auto committed = std::span(text).first(known);
    if (step % 3 != 1) {  // a round may be skipped
      const std::vector<DraftSequence> round = {drafting(1, committed)};
      ngram.start(round);
      const std::vector<DraftNode> roots = {{0, -1, committed.back()}};
      ngram.expand(roots, 3, out);
      std::vector<DraftNode> drafts;
      for (const Candidate& candidate : out[0]) drafts.push_back({0, 0, candidate.token});
      ngram.expand(drafts, 3, out);
    }
    const size_t rows = 1 + random_bits(stream_key(9, step), 0) % 8;
    testing_support::observe_chain(ngram, 1, std::span(text).first(known + rows), known - 1, rows);
    known += rows;
    const NgramIndex scratch = index_of(std::span(text).first(known));
    ASSERT_THAT(ngram.index(1).tokens(), ::testing::ElementsAreArray(scratch.tokens()));
    const auto a = guesses_of(ngram.index(1), scratch.tokens());
    const auto b = guesses_of(scratch, scratch.tokens());
    ASSERT_EQ(tokens_of(a), tokens_of(b));
  }
}

TEST(NgramSpeculator, TakesAWholePromptAtOnce) {
  NgramSpeculator ngram;
  ngram.begin(1);
  const std::vector<int32_t> prompt = random_text(300, 40, 3);
  testing_support::observe_chain(ngram, 1, prompt, 0, 20);  // the first chunk of twenty rows
  EXPECT_EQ(ngram.index(1).tokens().size(), prompt.size());
  testing_support::observe_chain(ngram, 1, prompt, 20, 20);
  EXPECT_EQ(ngram.index(1).tokens().size(), prompt.size());
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

TEST(NgramSpeculator, RefusesWhatItDoesNotKnow) {
  NgramSpeculator ngram;
  ngram.begin(1);
  expect_refused([&] { ngram.begin(1); }, "already has a sequence 1");
  expect_refused([&] { ngram.end(2); }, "no sequence 2");
  const std::vector<int32_t> text = {1, 2, 1};
  expect_refused(
      [&] {
        const std::vector<DraftSequence> round = {drafting(2, text)};
        ngram.start(round);
      },
      "no sequence 2");
  const std::vector<DraftSequence> round = {drafting(1, text)};
  ngram.start(round);
  std::vector<std::vector<Candidate>> out;
  for (const DraftNode node : {DraftNode{1, -1, 1}, {-1, -1, 1}, {0, 0, 1}, {0, -2, 1}}) {
    const std::vector<DraftNode> nodes = {node};
    expect_refused([&] { ngram.expand(nodes, 3, out); }, "draft node");
  }
  const std::vector<DraftSequence> shorter = {drafting(1, std::span(text).first(2))};
  expect_refused([&] { ngram.start(shorter); }, "shrank from 3 to 2");
  ngram.end(1);
  expect_refused([&] { ngram.end(1); }, "no sequence 1");
  ngram.begin(1);  // begins empty
  EXPECT_THAT(ngram.index(1).tokens(), IsEmpty());
}

}  // namespace
}  // namespace clover
