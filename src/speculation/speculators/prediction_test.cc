// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace clover {
namespace {

using Ids = std::vector<int32_t>;

Ids numbers(int32_t first, int32_t count) {
  Ids ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

// What is proposed behind a prompt and `answer`.
Ids proposed(const Ids& predicted, const Ids& answer) {
  PredictionSpeculator speculator;
  speculator.begin(1);
  Ids tokens = {900, 901};
  tokens.insert(tokens.end(), answer.begin(), answer.end());
  const DraftSequence sequence{1, tokens, {}, 32, predicted, 2};
  speculator.start({&sequence, 1});
  std::vector<std::vector<Candidate>> out;
  const DraftNode root{0, -1, tokens.back()};
  speculator.expand({&root, 1}, 8, out);
  Ids ids;
  for (const Candidate& candidate : out.at(0)) {
    EXPECT_GE(candidate.bin, 0);
    EXPECT_LT(candidate.bin, speculator.bins());
    EXPECT_GT(candidate.probability, 0.0f);
    EXPECT_LT(candidate.probability, 1.0f);
    ids.push_back(candidate.token);
  }
  speculator.end(1);
  return ids;
}

TEST(Prediction, ProposesTheNextPredictedToken) {
  const Ids predicted = numbers(10, 50);
  EXPECT_EQ(proposed(predicted, {10}), Ids{11});
  EXPECT_EQ(proposed(predicted, numbers(10, 30)), Ids{40});
  EXPECT_EQ(proposed(predicted, predicted), Ids{});  // all said
}

TEST(Prediction, ComesBackBehindDeviations) {
  const Ids predicted = numbers(10, 50);
  // One token replaced: behind it the next one, or the one that it took the place of.
  EXPECT_EQ(proposed(predicted, {10, 11, 500}), (Ids{13, 12}));
  EXPECT_EQ(proposed(predicted, {10, 11, 500, 13}), Ids{14});
  // Put in.
  EXPECT_EQ(proposed(predicted, {10, 11, 500, 501, 12}), Ids{13});
  // Left out.
  EXPECT_EQ(proposed(predicted, {10, 11, 20}), Ids{21});
  // Back to an earlier part, which two tokens show and one does not.
  EXPECT_EQ(proposed(predicted, {10, 11, 12, 13, 14, 11, 12}), Ids{13});
  // Lost for good.
  EXPECT_EQ(proposed(predicted, numbers(500, 40)), Ids{});
  EXPECT_EQ(proposed(predicted, {500}), (Ids{11, 10}));
}

TEST(Prediction, TakesTheNearestOfEqualPlaces) {
  Ids predicted;
  for (int32_t i = 0; i < 8; ++i)
    for (const int32_t id : {1, 2, 3, 100 + i}) predicted.push_back(id);
  // In the third line, then something new, then "1 2 3" again: the fourth line is due.
  Ids answer(predicted.begin(), predicted.begin() + 10);
  answer.insert(answer.end(), {700, 1, 2, 3});
  EXPECT_EQ(proposed(predicted, answer), Ids{103});
}

TEST(Prediction, DraftsRunAlongThePrediction) {
  PredictionSpeculator speculator;
  const Ids predicted = numbers(10, 20);
  const Ids tokens = {1, 10}, plain = {1, 2};
  const DraftSequence sequences[] = {{1, tokens, {}, 32, predicted, 1}, {2, plain, {}, 32, {}, 1}};
  speculator.start(sequences);
  std::vector<std::vector<Candidate>> out;
  const DraftNode roots[] = {{0, -1, 10}, {1, -1, 2}};
  speculator.expand(roots, 8, out);
  ASSERT_EQ(out.size(), 2u);
  ASSERT_EQ(out[0].size(), 1u);
  EXPECT_TRUE(out[1].empty());  // nobody predicted anything
  const DraftNode next[] = {{0, 0, 11}, {0, 0, 55}, {1, 1, 3}};
  speculator.expand(next, 8, out);
  ASSERT_EQ(out[0].size(), 1u);
  EXPECT_EQ(out[0][0].token, 12);
  EXPECT_TRUE(out[1].empty());  // another speculator's draft, beside the prediction
  EXPECT_TRUE(out[2].empty());
}

TEST(Prediction, CountsEveryPredictedTokenOnce) {
  const Ids predicted = numbers(10, 6);
  EXPECT_EQ(predicted_said(predicted, predicted), 6);
  EXPECT_EQ(predicted_said(predicted, {}), 0);
  EXPECT_EQ(predicted_said({}, predicted), 0);
  EXPECT_EQ(predicted_said(predicted, Ids{10, 11, 10, 11, 10, 11}), 2);
  EXPECT_EQ(predicted_said(predicted, Ids{10, 500, 12, 13, 14, 15}), 5);
  EXPECT_EQ(predicted_said(Ids(3000, 7), Ids(5000, 7)), 3000);
}

}  // namespace
}  // namespace clover
