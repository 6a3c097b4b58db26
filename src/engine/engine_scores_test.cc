// SPDX-License-Identifier: Apache-2.0
// Log-probabilities of prompts: bit for bit the same however the prompt is read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/speculation_fixtures.h"

namespace clover {
namespace {

using namespace engine_testing;

const FakeTokenizer& tokenizer() {
  static const FakeTokenizer made(numbered_pieces(), {11});
  return made;
}

Request scored_request(int64_t length, int64_t max_tokens, int top = 3) {
  Request request = make_request(random_prompt(40, length), max_tokens);
  request.prompt_logprobs = true;
  request.top_logprobs = top;
  return request;
}

// The slow way: a draw's log-probabilities do not depend on what was drawn.
void expect_scores(const Answer& answer, const Request& request) {
  const auto logits = all_logits(*tiny_model(), request.prompt);
  ASSERT_EQ(answer.prompt.size() + 1, request.prompt.size());
  for (size_t i = 0; i < answer.prompt.size(); ++i) {
    const OutputToken& token = answer.prompt[i];
    ASSERT_EQ(token.id, request.prompt[i + 1]);
    SamplingParams forced;
    forced.logit_bias = {{token.id, std::numeric_limits<float>::infinity()}};
    const Draw draw = SamplerState(forced, {}, kTinyVocab).draw(logits[i], i + 1, {}, 3);
    ASSERT_EQ(draw.id, token.id);
    EXPECT_EQ(draw.logprob, token.logprob) << i;
    ASSERT_EQ(draw.top.size(), token.top.size());
    for (size_t k = 0; k < draw.top.size(); ++k) {
      EXPECT_EQ(draw.top[k].id, token.top[k].id);
      EXPECT_EQ(draw.top[k].logprob, token.top[k].logprob);
    }
  }
}

TEST(EngineScores, AnyChunkingGivesTheSameBitsD2) {
  for (const int64_t max_tokens : {0, 5}) {
    const Request request = scored_request(150, max_tokens);
    for (const int64_t rows : {1, 7, 64, 256}) {
      const EngineOptions options{.context = 192, .prefill_rows = rows};
      const Answer answer = run_alone(tiny_model(), tokenizer(), request, options);
      expect_scores(answer, request);
      EXPECT_EQ(std::ssize(answer.ids), max_tokens);
      EXPECT_EQ(answer.finish, FinishReason::kLength);
      EXPECT_THAT(answer.faults, testing::IsEmpty());
    }
  }
}

TEST(EngineScores, TheAnswerBehindIsTheSame) {
  Request request = scored_request(70, 12);
  const Answer scored = run_alone(tiny_model(), tokenizer(), request);
  request.prompt_logprobs = false;
  const Answer plain = run_alone(tiny_model(), tokenizer(), request);
  EXPECT_EQ(scored.text, plain.text);
  EXPECT_EQ(scored.ids, plain.ids);
  EXPECT_TRUE(plain.prompt.empty());
}

// The whole context, nothing but one token, and a prompt of one token with nothing to say.
TEST(EngineScores, EdgesOfThePromptAndTheContext) {
  for (const int64_t length : {1, 2, 63, 64, 65, 128}) {
    for (const int64_t max_tokens : {0, 1}) {
      const Request request = scored_request(length, max_tokens, length == 64 ? 0 : 3);
      const Answer answer = run_alone(tiny_model(), tokenizer(), request, {.context = 128});
      EXPECT_EQ(std::ssize(answer.prompt), length - 1);
      EXPECT_EQ(std::ssize(answer.ids), max_tokens);
      EXPECT_EQ(answer.finish, FinishReason::kLength);
    }
  }
}

// In company, on a prompt that others have read before, with drafts, and preempted.
TEST(EngineScores, LoadCachesAndDraftsChangeNothing) {
  const Request request = scored_request(90, 20);
  const Answer alone = run_alone(tiny_model(), tokenizer(), request, {.context = 128});
  expect_scores(alone, request);
  EngineOptions options{.context = 128, .max_sequences = 6, .kv_tokens = 256};
  options.prefix_cache = true;
  options.stall_ms = 1e9;  // chunks and trees that do not depend on the machine's speed
  options.tree = TreePolicy::parse("4");
  options.speculators = {ngram(), recycling(), untrained("clover2", tiny_model())};
  Engine engine(tiny_model(), tokenizer(), options);
  std::vector<Answer> answers(9);
  for (size_t i = 0; i < answers.size(); ++i) {
    Request one = request;
    one.prompt_logprobs = i % 3 != 1;
    submit(engine, one, answers[i]);
  }
  engine.run();
  for (size_t i = 0; i < answers.size(); ++i) {
    if (i % 3 != 1)
      EXPECT_TRUE(same_answer(answers[i], alone)) << i;
    else
      EXPECT_EQ(answers[i].ids, alone.ids) << i;
  }
  EXPECT_GT(engine.engine_stats().preemptions, 0);
  EXPECT_GT(engine.engine_stats().cached_tokens, 0);
}

// A long prompt never has more than a stated number of rows of logits at once.
TEST(EngineScores, LogitsOfAPassStayFew) {
  Engine engine(tiny_model(), tokenizer(), {.context = 1024, .prefill_rows = 1024});
  Answer answer;
  submit(engine, scored_request(900, 1), answer);
  engine.run();
  EXPECT_GE(engine.engine_stats().steps, 900 / 64);
  EXPECT_EQ(std::ssize(answer.prompt), 899);
  EXPECT_GT(answer.pieces, 10);  // and is told as it goes
}

TEST(EngineScores, CancelledInMidPrompt) {
  Engine engine(tiny_model(), tokenizer(), {.context = 1024});
  Answer answer;
  const int64_t id = submit(engine, scored_request(500, 3), answer);
  engine.step();
  engine.cancel(id);
  engine.run();
  EXPECT_EQ(answer.finish, FinishReason::kCancelled);
  EXPECT_EQ(std::ssize(answer.prompt), 64);
  EXPECT_EQ(engine.engine_stats().kv_blocks_free, engine.engine_stats().kv_blocks);
}

}  // namespace
}  // namespace clover
