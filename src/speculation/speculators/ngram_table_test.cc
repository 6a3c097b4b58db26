// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/ngram_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "speculation/speculators/observed_for_tests.h"
#include "speculation/speculators/table_speculator.h"

namespace clover {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Tokens 10, 20, 30 and 40. After 20 comes 30, rarely 40; after 10 20 comes 40; after 30 10 20
// comes 10.
NgramTable::Parts parts() {
  NgramTable::Parts parts;
  parts.tokens = {10, 20, 30, 40};
  parts.best = 2;
  parts.orders[0] = {{1, 2}, {2, 3, 0, -1}, {127, 25, 255, 0}};
  parts.orders[1] = {{1, 0}, {3, -1}, {199, 0}};
  parts.orders[2] = {{1, 0, 2}, {0, -1}, {229, 0}};
  return parts;
}

std::vector<NgramTable::Guess> guesses(const std::vector<int32_t>& context, int32_t width = 8) {
  std::vector<NgramTable::Guess> out;
  NgramTable(parts(), 50, "t").guesses(context, width, out);
  return out;
}

TEST(NgramTable, TheLongestContextSpeaksFirst) {
  const auto one = guesses({5, 20});
  ASSERT_EQ(one.size(), 2u);
  EXPECT_EQ(one[0].token, 30);
  EXPECT_FLOAT_EQ(one[0].probability, 127.5f / 256);
  EXPECT_EQ(one[0].order, 1);
  EXPECT_EQ(one[1].token, 40);
  const auto two = guesses({40, 10, 20});
  ASSERT_EQ(two.size(), 2u);  // 40 once, though order 1 names it too
  EXPECT_EQ(two[0].token, 40);
  EXPECT_EQ(two[0].order, 2);
  EXPECT_FLOAT_EQ(two[0].probability, 199.5f / 256);
  EXPECT_EQ(two[1].token, 30);
  EXPECT_LT(two[1].probability, one[0].probability);  // what is left for the shorter context
  const auto three = guesses({7, 30, 10, 20});
  EXPECT_EQ(three[0].token, 10);
  EXPECT_EQ(three[0].order, 3);
  EXPECT_EQ(three.size(), 3u);
  EXPECT_EQ(guesses({30, 10, 20}, 1).size(), 1u);
}

TEST(NgramTable, WhatItDoesNotKnowIsNoGuess) {
  EXPECT_THAT(guesses({}), IsEmpty());
  EXPECT_THAT(guesses({10}), IsEmpty());      // known, but nothing follows it
  EXPECT_THAT(guesses({20, 5}), IsEmpty());   // a token that the table cannot name
  EXPECT_THAT(guesses({20, -3}), IsEmpty());  // and ones outside the vocabulary
  EXPECT_THAT(guesses({20, 5000}), IsEmpty());
  EXPECT_THAT(guesses({20}, 0), IsEmpty());
  EXPECT_LE(guesses({30}).front().probability, 0.999f);
}

std::string refusal(void (*spoil)(NgramTable::Parts&)) {
  NgramTable::Parts broken = parts();
  spoil(broken);
  try {
    NgramTable table(std::move(broken), 50, "somewhere");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_THAT(error.what(), HasSubstr("somewhere"));
    return error.what();
  }
  return "";
}

TEST(NgramTable, RefusesPartsThatDoNotFit) {
  using Parts = NgramTable::Parts;
  EXPECT_EQ(refusal([](Parts&) {}), "");
  EXPECT_THAT(refusal([](Parts& p) { p.best = 0; }), HasSubstr("next tokens"));
  EXPECT_THAT(refusal([](Parts& p) { p.best = 9; }), HasSubstr("next tokens"));
  EXPECT_THAT(refusal([](Parts& p) { p.best = 3; }), HasSubstr("differ in length"));
  EXPECT_THAT(refusal([](Parts& p) { p.tokens[3] = 50; }), HasSubstr("token 50"));
  EXPECT_THAT(refusal([](Parts& p) { p.tokens[3] = -1; }), HasSubstr("token -1"));
  EXPECT_THAT(refusal([](Parts& p) { p.tokens[3] = 10; }), HasSubstr("token 10"));
  EXPECT_THAT(refusal([](Parts& p) { p.tokens.assign(32769, 1); }), HasSubstr("32769"));
  EXPECT_THAT(refusal([](Parts& p) { p.orders[0].contexts = {2, 1}; }), HasSubstr("order"));
  EXPECT_THAT(refusal([](Parts& p) { p.orders[0].contexts = {1, 1}; }), HasSubstr("order"));
  EXPECT_THAT(refusal([](Parts& p) { p.orders[0].contexts = {-1, 1}; }), HasSubstr("number -1"));
  EXPECT_THAT(refusal([](Parts& p) { p.orders[1].contexts = {1, 4}; }), HasSubstr("number 4"));
  EXPECT_THAT(refusal([](Parts& p) { p.orders[1].next[0] = -2; }), HasSubstr("number -2"));
  EXPECT_THAT(refusal([](Parts& p) { p.orders[1].next[0] = 4; }), HasSubstr("number 4"));
  EXPECT_THAT(refusal([](Parts& p) { p.orders[2].contexts.pop_back(); }), HasSubstr("length"));
  EXPECT_THAT(refusal([](Parts& p) { p.orders[2].probabilities.pop_back(); }), HasSubstr("length"));
}

TEST(TableSpeculator, DraftsAlongAPath) {
  TableSpeculator speculator(std::make_shared<const NgramTable>(parts(), 50, "t"));
  const std::vector<int32_t> tokens = {1, 2, 30, 10};
  const std::vector<int32_t> other = {20};
  const std::vector<DraftSequence> round = {{.id = 1, .tokens = tokens, .blocks = {}},
                                            {.id = 2, .tokens = other, .blocks = {}}};
  speculator.start(round);
  std::vector<std::vector<Candidate>> out;
  speculator.expand(std::vector<DraftNode>{{0, -1, 10}, {1, -1, 20}}, 8, out);
  EXPECT_THAT(out[0], IsEmpty());
  ASSERT_EQ(out[1].size(), 2u);
  speculator.expand(std::vector<DraftNode>{{0, 0, 20}}, 8, out);
  ASSERT_FALSE(out[0].empty());
  EXPECT_EQ(out[0][0].token, 10);  // the path 30 10 20, of which only 20 is drafted
  for (const Candidate& c : out[0]) {
    EXPECT_GE(c.bin, 0);
    EXPECT_LT(c.bin, speculator.bins());
  }
  EXPECT_FALSE(speculator.costly());
}

}  // namespace
}  // namespace clover
