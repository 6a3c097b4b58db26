// SPDX-License-Identifier: Apache-2.0
#include "engine/text_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine_fixtures.h"

namespace clover {
namespace {

using engine_testing::Answer;
using engine_testing::FakeTokenizer;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Strings = std::vector<std::string>;

// One answer whose token i is the i-th piece.
class Stream {
 public:
  Stream(Strings pieces, Strings stop)
      : tokenizer_(std::move(pieces)), output_(tokenizer_, std::move(stop)) {}

  // Adds `count` tokens as one step and takes what is certain; true when a stop string ended it.
  bool step(int32_t count) {
    for (int32_t i = 0; i < count && !stopped_; ++i) push();
    if (!stopped_) take(false);
    return stopped_;
  }
  void push(bool silent = false) {
    stopped_ = output_.push({.id = next_,
                             .logprob = -0.25f * static_cast<float>(next_),
                             .top = {{.id = next_, .logprob = -1.0f}},
                             .drafted = false},
                            silent);
    ++next_;
  }
  void take(bool all) {
    Output output = output_.take(all);
    last_ = output;
    if (all) output.finish = stopped_ ? FinishReason::kStop : FinishReason::kLength;
    if (all || !output.text.empty() || !output.tokens.empty()) answer_.add(output);
  }
  // All tokens in steps of `block`, then the end.
  const Answer& run(int32_t block) {
    while (!stopped_ && next_ < tokenizer_.vocab_size())
      step(std::min(block, tokenizer_.vocab_size() - next_));
    take(true);
    return answer_;
  }
  const Output& last() const { return last_; }
  const Answer& answer() const { return answer_; }
  int64_t tokens() const { return output_.tokens(); }

 private:
  FakeTokenizer tokenizer_;
  TextOutput output_;
  int32_t next_ = 0;
  bool stopped_ = false;
  Output last_;
  Answer answer_;
};

struct Case {
  std::string name;
  Strings pieces;
  Strings stop;
  std::string text;
  size_t tokens;
  FinishReason finish;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class TextOutputCases : public ::testing::TestWithParam<Case> {};

// C2, C4, C7: text, ids and log-probabilities end at the same token, however many tokens a step
// brings.
TEST_P(TextOutputCases, EndsAtTheSameTokenForAnyBlockC4) {
  const Case& c = GetParam();
  for (const int32_t block : {1, 2, 3, 4, 7, 20}) {
    SCOPED_TRACE(block);
    Stream stream(c.pieces, c.stop);
    const Answer& answer = stream.run(block);
    EXPECT_EQ(answer.text, c.text);
    EXPECT_EQ(answer.finish, c.finish);
    EXPECT_THAT(answer.faults, IsEmpty());
    ASSERT_EQ(answer.tokens.size(), c.tokens);
    EXPECT_EQ(stream.tokens(), static_cast<int64_t>(c.tokens));
    for (size_t i = 0; i < c.tokens; ++i) {
      EXPECT_EQ(answer.tokens[i].id, static_cast<TokenId>(i));
      EXPECT_EQ(answer.tokens[i].logprob, -0.25f * static_cast<float>(i));
      ASSERT_EQ(answer.tokens[i].top.size(), 1U);
      EXPECT_EQ(answer.tokens[i].top[0].id, static_cast<TokenId>(i));
    }
  }
}

constexpr FinishReason kStop = FinishReason::kStop;
constexpr FinishReason kLength = FinishReason::kLength;

const Strings kTwenty = {"ST", "OP", "c", "d", "e", "f", "g", "h", "i", "j",
                         "k",  "l",  "m", "n", "o", "p", "q", "r", "s", "t"};

INSTANTIATE_TEST_SUITE_P(
    All, TextOutputCases,
    ::testing::Values(
        Case{"no_stop", {"a", "b", "c"}, {}, "abc", 3, kLength},
        Case{"stop_is_a_token", {"a", "X", "b"}, {"X"}, "a", 1, kStop},
        Case{"stop_spans_two_tokens", {"a", "ST", "OP", "b"}, {"STOP"}, "a", 1, kStop},
        Case{"stop_spans_four_tokens", {"a", "S", "T", "O", "P", "b"}, {"STOP"}, "a", 1, kStop},
        Case{"stop_in_first_two_of_a_block_C2", kTwenty, {"STOP"}, "", 0, kStop},
        Case{"stop_begins_in_mid_token", {"aS", "T", "OP"}, {"STOP"}, "a", 1, kStop},
        Case{"stop_ends_in_mid_token", {"a", "ST", "OPb"}, {"STOP"}, "a", 1, kStop},
        Case{"stop_inside_one_token", {"a", "bSTOPc", "d"}, {"STOP"}, "ab", 2, kStop},
        Case{"stop_is_the_whole_answer", {"STOP"}, {"STOP"}, "", 0, kStop},
        Case{"prefix_that_comes_to_nothing", {"a", "ST", "x", "b"}, {"STOP"}, "aSTxb", 4, kLength},
        Case{"prefix_at_the_end", {"a", "ST"}, {"STOP"}, "aST", 2, kLength},
        Case{"prefix_then_the_stop", {"S", "S", "T", "O", "P"}, {"STOP"}, "S", 1, kStop},
        Case{"stop_overlaps_itself", {"aa", "b", "aa", "a", "b"}, {"aaab"}, "aab", 2, kStop},
        Case{"several_stops_first_wins", {"a", "EN", "D", "STOP"}, {"STOP", "END"}, "a", 1, kStop},
        Case{"several_stops_in_one_token", {"a", "xENDSTOP"}, {"STOP", "END"}, "ax", 2, kStop},
        Case{"stop_within_a_longer_one", {"a", "b", "c", "d"}, {"abcde", "bc"}, "a", 1, kStop},
        Case{"long_prefix_of_one_end_of_other", {"a", "b", "c"}, {"abcd", "c"}, "ab", 2, kStop},
        Case{"newlines", {"x", "\n", "\n", "y"}, {"\n\n"}, "x", 1, kStop},
        Case{"character_over_tokens_C7",
             {"a", "\xF0\x9F", "\x98", "\x80", "b"},
             {},
             "a😀b",
             5,
             kLength},
        Case{"cut_in_mid_character_C7", {"a", "\xF0\x9F", "\x98"}, {}, "a\uFFFD", 3, kLength},
        Case{"never_a_character", {"a", "\xFF", "b"}, {}, "a\uFFFDb", 3, kLength},
        Case{"broken_character", {"a", "\xE2\x82", "b"}, {}, "a\uFFFDb", 3, kLength},
        Case{
            "stop_is_a_spread_character", {"a", "\xF0\x9F", "\x98\x80", "b"}, {"😀"}, "a", 1, kStop},
        Case{"stop_ends_in_a_character", {"a", "x\xE2\x82", "\xAC", "b"}, {"x€"}, "a", 1, kStop},
        Case{"stop_after_a_spread_character", {"\xE2\x82", "\xAC|", "b"}, {"|"}, "€", 2, kStop},
        Case{"half_of_a_stop_character",
             {"a", "\xF0\x9F", "\x98\x81", "b"},
             {"😀"},
             "a😁b",
             4,
             kLength},
        Case{"character_behind_the_stop", {"a", "|\xF0\x9F"}, {"|"}, "a", 1, kStop},
        Case{"tokens_without_text", {"", "a", "", "", "b", ""}, {}, "ab", 6, kLength},
        Case{"empty_tokens_before_the_stop", {"a", "", "S", "", "T", "b"}, {"ST"}, "a", 1, kStop},
        Case{"empty_tokens_before_no_stop", {"a", "", "S", "", "b", ""}, {"ST"}, "aSb", 6, kLength},
        Case{"partly_shown_twice", {"aS", "aS", "T"}, {"ST"}, "aSa", 2, kStop}),
    [](const auto& test) { return test.param.name; });

TEST(TextOutput, HoldsBackAPrefixAndReleasesIt) {
  Stream stream({"ab", "ST", "O", "x", "y"}, {"STOP"});
  stream.step(1);
  EXPECT_EQ(stream.last().text, "ab");
  stream.step(1);
  EXPECT_EQ(stream.last().text, "");
  EXPECT_THAT(stream.last().tokens, IsEmpty());
  EXPECT_EQ(stream.tokens(), 2);  // held back, yet counted
  stream.step(1);
  EXPECT_EQ(stream.last().text, "");
  EXPECT_EQ(stream.tokens(), 3);
  stream.step(1);
  EXPECT_EQ(stream.last().text, "STOx");
  EXPECT_EQ(stream.last().tokens.size(), 3U);
  EXPECT_EQ(stream.tokens(), 4);
  stream.step(1);
  EXPECT_EQ(stream.last().text, "y");
}

TEST(TextOutput, HoldsBackNoMoreThanItMust) {
  Stream stream({"aaS", "S", "TO", "S", "!"}, {"STOP"});
  stream.step(1);
  EXPECT_EQ(stream.last().text, "aa");
  EXPECT_THAT(stream.last().tokens, IsEmpty());  // its last letter is still uncertain
  stream.step(1);
  EXPECT_EQ(stream.last().text, "S");
  ASSERT_EQ(stream.last().tokens.size(), 1U);
  EXPECT_EQ(stream.last().tokens[0].id, 0);
  stream.step(1);
  EXPECT_EQ(stream.last().text, "");
  stream.step(1);
  EXPECT_EQ(stream.last().text, "STO");
  EXPECT_EQ(stream.last().tokens.size(), 2U);
  stream.step(1);
  EXPECT_EQ(stream.last().text, "S!");
}

TEST(TextOutput, WithoutStopStringsEveryTokenIsGivenOutAtOnce) {
  Stream stream({"a", "\xF0\x9F", "\x98\x80", ""}, {});
  for (const std::string text : {"a", "", "😀", ""}) {
    stream.step(1);
    EXPECT_EQ(stream.last().text, text);
    EXPECT_EQ(stream.last().tokens.size(), 1U);
  }
}

TEST(TextOutput, TheEndOfTextTokenHasNoText) {
  Stream stream({"a", "S", "</s>"}, {"ST"});
  stream.step(2);
  stream.push(true);
  EXPECT_EQ(stream.tokens(), 3);
  stream.take(true);
  EXPECT_EQ(stream.answer().text, "aS");
  EXPECT_THAT(stream.answer().ids, ElementsAre(0, 1, 2));
}

TEST(TextOutput, TheEndGivesNothingTwice) {
  Stream stream({"a", "\xF0\x9F"}, {});
  stream.step(2);
  stream.take(true);
  EXPECT_EQ(stream.last().text, "\uFFFD");
  stream.take(true);
  EXPECT_EQ(stream.last().text, "");
  EXPECT_THAT(stream.last().tokens, IsEmpty());
}

// Random pieces of few letters against the plain search in the whole text.
TEST(TextOutput, RandomTextsEqualASearchInTheWhole) {
  const Strings letters = {"a", "b", "ab", "ba", "aab", "", "\xC3", "\xA4", "\xC3\xA4"};
  const Strings stops = {"abba", "aaa", "ä", "baä"};
  int stopped = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const auto pick = [&](uint64_t lane, uint64_t n) {
      return static_cast<size_t>(random_bits(stream_key(seed, 1), lane) % n);
    };
    Strings pieces;
    std::string bytes;
    for (uint64_t i = 0; i < 12; ++i) {
      pieces.push_back(letters[pick(i, letters.size())]);
      bytes += pieces.back();
    }
    const Strings stop = {stops[pick(100, 4)]};
    const std::string whole = utf8_replace_invalid(bytes);
    const size_t cut = whole.find(stop[0]);
    stopped += cut != std::string::npos;
    Stream at_once(pieces, stop);
    Stream one_by_one(pieces, stop);
    const Answer& answer = at_once.run(12);
    EXPECT_EQ(answer.text, whole.substr(0, cut)) << seed;
    EXPECT_TRUE(same_answer(one_by_one.run(1), answer)) << seed;
  }
  EXPECT_GT(stopped, 50);
  EXPECT_LT(stopped, 350);
}

}  // namespace
}  // namespace clover
