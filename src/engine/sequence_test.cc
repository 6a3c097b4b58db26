// SPDX-License-Identifier: Apache-2.0
#include "engine/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine_fixtures.h"

namespace clover {
namespace {

using engine_testing::Answer;
using engine_testing::FakeTokenizer;
using engine_testing::make_request;
using engine_testing::numbered_pieces;
using engine_testing::numbered_text;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int32_t kVocab = 64;
constexpr TokenId kEos = 50;

// A sequence whose draws are scripted and come in blocks, as from a right draft.
class Script {
 public:
  Script(Request request, std::vector<TokenId> text, int64_t context = 256)
      : text_(std::move(text)), tokenizer_(numbered_pieces(kVocab), {kEos}) {
    request.on_output = [this](const Output& output) { answer_.add(output); };
    sequence_ = std::make_unique<Sequence>(1, std::move(request), tokenizer_, context, kVocab);
  }

  // One step whose tree is a chain of `block` - 1 right drafts.
  void step(size_t block) {
    TokenTree tree(sequence_->tokens().back());
    int32_t node = 0;
    for (size_t i = 0; i + 1 < block && said_ + i < text_.size(); ++i)
      node = tree.add(node, text_[said_ + i]);
    const auto draw = [&](int32_t, std::span<const int32_t> pending) {
      return Draw{.id = text_.at(said_ + pending.size()), .logprob = -1.0f, .top = {}};
    };
    int64_t drawn = 0;
    const auto stop = [&](int32_t token) { return sequence_->ends(token, ++drawn); };
    const WalkResult result = walk(tree, draw, stop);
    said_ += result.draws.size();
    sequence_->accept(result, tree);
  }
  const Answer& run(size_t block) {
    while (!sequence_->finished() && said_ < text_.size()) step(block);
    return answer_;
  }
  Sequence& sequence() { return *sequence_; }
  const Answer& answer() const { return answer_; }
  size_t drawn() const { return said_; }

 private:
  std::vector<TokenId> text_;
  FakeTokenizer tokenizer_;
  std::unique_ptr<Sequence> sequence_;
  Answer answer_;
  size_t said_ = 0;
};

// C1: the end of text is looked at before the limit.
TEST(Sequence, EndOfTextInsideTheLimitStopsC1) {
  for (const size_t block : {1, 2, 3, 6}) {
    Script script(make_request({1, 2}, 5), {10, 11, kEos, 20, 21, 22});
    EXPECT_THAT(script.run(block).ids, ElementsAre(10, 11, kEos));
    EXPECT_EQ(script.answer().finish, FinishReason::kStop);
    EXPECT_EQ(script.answer().text, "[10][11]");
    EXPECT_EQ(script.sequence().stats().completion_tokens, 3);
    EXPECT_EQ(script.drawn(), 3U);  // A8: nothing behind it was even drawn
  }
}

TEST(Sequence, EndOfTextAtAndBehindTheLimitC1) {
  for (const size_t block : {1, 3, 8}) {
    Script at(make_request({1}, 5), {10, 11, 12, 13, kEos, 20});
    EXPECT_EQ(at.run(block).ids.size(), 5U);
    EXPECT_EQ(at.answer().finish, FinishReason::kStop);
    Script behind(make_request({1}, 5), {10, 11, 12, 13, 14, kEos});
    EXPECT_THAT(behind.run(block).ids, ElementsAre(10, 11, 12, 13, 14));
    EXPECT_EQ(behind.answer().finish, FinishReason::kLength);
  }
}

TEST(Sequence, IgnoresEndOfTextWhenAsked) {
  Request request = make_request({1}, 4);
  request.ignore_eos = true;
  Script script(request, {10, kEos, 11, 12, 13});
  EXPECT_THAT(script.run(3).ids, ElementsAre(10, kEos, 11, 12));
  EXPECT_EQ(script.answer().finish, FinishReason::kLength);
  EXPECT_EQ(script.answer().text, "[10][11][12]");  // a control token has no text
}

// C5, C6: exactly max_tokens, whatever the blocks, and the usage says so.
TEST(Sequence, DeliversExactlyTheLimitC5) {
  std::vector<TokenId> text;
  for (TokenId i = 0; i < 64; ++i) text.push_back(i % 40);
  for (int64_t limit = 1; limit <= 64; ++limit) {
    for (size_t block = 1; block <= 8; ++block) {
      Script script(make_request({1, 2, 3}, limit), text);
      const Answer& answer = script.run(block);
      ASSERT_EQ(static_cast<int64_t>(answer.ids.size()), limit);
      ASSERT_EQ(script.sequence().stats().completion_tokens, limit);
      ASSERT_EQ(script.drawn(), static_cast<size_t>(limit));
      ASSERT_EQ(answer.finish, FinishReason::kLength);
      ASSERT_EQ(answer.text, numbered_text(answer.ids));
      ASSERT_THAT(answer.faults, IsEmpty());
    }
  }
}

// C2, C4, C6: a stop string in the first two tokens of a block of 20.
TEST(Sequence, StopStringEarlyInALongBlockC2) {
  std::vector<TokenId> text;
  for (TokenId i = 0; i < 40; ++i) text.push_back(i);
  for (const size_t block : {1, 2, 20}) {
    Request request = make_request({1}, 40);
    request.stop = {"][1"};  // begins in the first token, ends in the second
    Script script(request, text);
    EXPECT_THAT(script.run(block).ids, ElementsAre(0));
    EXPECT_EQ(script.answer().text, "[0");
    EXPECT_EQ(script.answer().finish, FinishReason::kStop);
    EXPECT_EQ(script.sequence().stats().completion_tokens, 1);
  }
}

TEST(Sequence, TheStopStringComesBeforeALaterLimit) {
  Request request = make_request({1}, 3);
  request.stop = {"[11]"};
  Script script(request, {10, 11, 12, 13});
  EXPECT_THAT(script.run(4).ids, ElementsAre(10));
  EXPECT_EQ(script.answer().finish, FinishReason::kStop);
}

TEST(Sequence, MarksDraftedTokens) {
  Script script(make_request({1}, 10), {10, 11, 12, 13, 14, 15, 16, 17, 18, 19});
  script.step(3);
  const std::vector<OutputToken>& tokens = script.answer().tokens;
  ASSERT_EQ(tokens.size(), 3U);
  EXPECT_TRUE(tokens[0].drafted);
  EXPECT_TRUE(tokens[1].drafted);
  EXPECT_FALSE(tokens[2].drafted);
}

TEST(Sequence, ReachesTheContextAndNoFurther) {
  std::vector<TokenId> text(30, 5);
  for (const int64_t prompt : {1, 9, 10}) {
    Script script(make_request(std::vector<TokenId>(static_cast<size_t>(prompt), 3), -1), text, 10);
    EXPECT_EQ(static_cast<int64_t>(script.run(4).ids.size()), 10 - prompt + 1);
    EXPECT_EQ(script.answer().finish, FinishReason::kLength);
    EXPECT_EQ(script.sequence().remaining(), 0);
  }
}

TEST(Sequence, CountsWhatItHasReadAndDrawn) {
  Script script(make_request({1, 2, 3}, 4), {10, 11, 12, 13});
  Sequence& sequence = script.sequence();
  EXPECT_TRUE(sequence.reading());
  EXPECT_EQ(sequence.unread(), 3);
  sequence.mark_read(2);
  EXPECT_EQ(sequence.unread(), 1);
  sequence.mark_read(1);
  EXPECT_FALSE(sequence.reading());
  EXPECT_EQ(sequence.unread(), 0);
  script.step(2);
  EXPECT_EQ(sequence.remaining(), 2);
  EXPECT_THAT(sequence.tokens(), ElementsAre(1, 2, 3, 10, 11));
  EXPECT_EQ(sequence.prompt_tokens(), 3);
}

// D9: the noise belongs to the absolute position, the depth in the tree included.
TEST(Sequence, DrawsWithTheNoiseOfThePosition) {
  const FakeTokenizer tokenizer(numbered_pieces(kVocab), {kEos});
  Request request = make_request({1, 2, 3}, 10);
  request.sampling.temperature = 1.0f;
  request.sampling.seed = 77;
  const Sequence sequence(1, request, tokenizer, 100, kVocab);
  const SamplerState sampler(request.sampling, {kEos}, kVocab);
  const std::vector<float> flat(kVocab, 0.0f);
  std::vector<TokenId> ids;
  for (int32_t depth = 0; depth < 20; ++depth) {
    ids.push_back(sequence.draw(flat, depth, {}).id);
    EXPECT_EQ(ids.back(), sampler.draw(flat, static_cast<uint64_t>(3 + depth), {}, -1).id);
  }
  std::sort(ids.begin(), ids.end());
  EXPECT_GT(std::unique(ids.begin(), ids.end()) - ids.begin(), 10);
}

// D4: tokens that were drawn earlier in the same step count for the penalties and min_tokens.
TEST(Sequence, PendingTokensCountD4) {
  const FakeTokenizer tokenizer(numbered_pieces(kVocab), {kEos});
  Request request = make_request({1}, 10);
  request.sampling.frequency_penalty = 1.0f;
  request.sampling.min_tokens = 2;
  const Sequence sequence(1, request, tokenizer, 100, kVocab);
  std::vector<float> logits(kVocab, 0.0f);
  logits[7] = 1.5f;
  logits[8] = 1.0f;
  const std::vector<int32_t> once = {7};
  EXPECT_EQ(sequence.draw(logits, 0, {}).id, 7);
  EXPECT_EQ(sequence.draw(logits, 1, once).id, 8);
  logits[kEos] = 9.0f;
  const std::vector<int32_t> other = {9, 9};
  EXPECT_EQ(sequence.draw(logits, 1, once).id, 8);
  EXPECT_EQ(sequence.draw(logits, 2, other).id, kEos);
}

TEST(Sequence, EndsOnce) {
  Script script(make_request({1}, 10), {10, 11, 12});
  script.step(1);
  script.sequence().finish(FinishReason::kCancelled);
  script.sequence().finish(FinishReason::kError, "too late");
  EXPECT_EQ(script.answer().finish, FinishReason::kCancelled);
  EXPECT_EQ(script.answer().pieces, 2);
  EXPECT_THAT(script.answer().faults, IsEmpty());
}

TEST(FinishReason, HasNames) {
  EXPECT_EQ(finish_reason_name(FinishReason::kNone), "");
  EXPECT_EQ(finish_reason_name(FinishReason::kStop), "stop");
  EXPECT_EQ(finish_reason_name(FinishReason::kLength), "length");
  EXPECT_EQ(finish_reason_name(FinishReason::kCancelled), "cancelled");
  EXPECT_EQ(finish_reason_name(FinishReason::kError), "error");
}

}  // namespace
}  // namespace clover
