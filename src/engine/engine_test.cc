// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/engine_fixtures.h"

namespace clover {
namespace {

using namespace engine_testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const FakeTokenizer& plain_tokenizer() {
  static const FakeTokenizer tokenizer(numbered_pieces());
  return tokenizer;
}

// What a request without end-of-text tokens says at temperature 0.
std::vector<TokenId> greedy_ids(const std::vector<TokenId>& prompt, int64_t count) {
  return ids_of(reference_draws(*tiny_model(), make_request(prompt, count)));
}

// A first position ≥ 3 at which an id turns up that was not there before, to serve as EOS.
size_t first_new_id(const std::vector<TokenId>& ids) {
  for (size_t i = 3; i < ids.size(); ++i)
    if (std::find(ids.begin(), ids.begin() + static_cast<int64_t>(i), ids[i]) ==
        ids.begin() + static_cast<int64_t>(i))
      return i;
  ADD_FAILURE() << "the tiny model repeats itself too soon";
  return 3;
}

TEST(Engine, EqualsAFreshPassForEveryToken) {
  Request request = make_request(random_prompt(1, 20), 30);
  const std::vector<TokenId> ids = greedy_ids(request.prompt, 30);
  const Answer answer = run_alone(tiny_model(), plain_tokenizer(), request);
  EXPECT_EQ(answer.ids, ids);
  EXPECT_EQ(answer.text, numbered_text(ids));
  EXPECT_EQ(answer.finish, FinishReason::kLength);
  EXPECT_THAT(answer.faults, IsEmpty());
}

// C1: end of text ends the answer, is counted and has no text; at the limit it is still a stop.
TEST(Engine, EndOfTextEndsTheAnswerC1) {
  const std::vector<TokenId> prompt = random_prompt(2, 12);
  const std::vector<TokenId> ids = greedy_ids(prompt, 30);
  const size_t at = first_new_id(ids);
  const FakeTokenizer tokenizer(numbered_pieces(), {ids[at]});
  const std::vector<TokenId> shorter(ids.begin(), ids.begin() + static_cast<int64_t>(at));
  for (const auto limit : {static_cast<int64_t>(at) + 5, static_cast<int64_t>(at) + 1}) {
    const Answer answer = run_alone(tiny_model(), tokenizer, make_request(prompt, limit));
    EXPECT_EQ(answer.finish, FinishReason::kStop);
    EXPECT_EQ(answer.ids.size(), at + 1);
    EXPECT_EQ(answer.ids.back(), ids[at]);
    EXPECT_EQ(answer.text, numbered_text(shorter));
  }
  const Answer cut =
      run_alone(tiny_model(), tokenizer, make_request(prompt, static_cast<int64_t>(at)));
  EXPECT_EQ(cut.finish, FinishReason::kLength);
  EXPECT_EQ(cut.ids, shorter);

  Request on = make_request(prompt, 30);
  on.ignore_eos = true;
  EXPECT_EQ(run_alone(tiny_model(), tokenizer, on).ids, ids);
}

// C5, C6.
TEST(Engine, DeliversExactlyMaxTokensC5) {
  const std::vector<TokenId> prompt = random_prompt(3, 9);
  const std::vector<TokenId> ids = greedy_ids(prompt, 33);
  for (const int64_t limit : {0, 1, 2, 5, 33}) {
    SCOPED_TRACE(limit);
    Engine engine(tiny_model(), plain_tokenizer(), {.context = 64});
    Answer answer;
    const int64_t id = submit(engine, make_request(prompt, limit), answer);
    engine.run();
    EXPECT_EQ(answer.ids, std::vector<TokenId>(ids.begin(), ids.begin() + limit));
    EXPECT_EQ(answer.finish, FinishReason::kLength);
    EXPECT_THAT(answer.faults, IsEmpty());
    const RequestStats* stats = engine.stats(id);
    ASSERT_NE(stats, nullptr);
    EXPECT_EQ(stats->prompt_tokens, 9);
    EXPECT_EQ(stats->completion_tokens, limit);
    EXPECT_EQ(stats->target_steps, limit);
  }
}

// A request for nothing takes no place from those that wait behind it.
TEST(Engine, ARequestForNothingHoldsUpNobody) {
  Engine engine(tiny_model(), plain_tokenizer(), {.context = 64, .max_sequences = 1});
  std::vector<Answer> answers(5);
  const std::vector<TokenId> prompt = random_prompt(4, 7);
  const int64_t limits[] = {0, 0, 3, 0, 2};
  for (size_t i = 0; i < 5; ++i) submit(engine, make_request(prompt, limits[i]), answers[i]);
  engine.run();
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(static_cast<int64_t>(answers[i].ids.size()), limits[i]) << i;
    EXPECT_EQ(answers[i].finish, FinishReason::kLength) << i;
  }
}

TEST(Engine, StopStringsCutTextAndIdsC4) {
  const std::vector<TokenId> prompt = random_prompt(5, 15);
  const std::vector<TokenId> ids = greedy_ids(prompt, 20);
  const size_t at = first_new_id(ids);
  Request request = make_request(prompt, 20);
  request.stop = {"never", fmt::format("][{}]", ids[at])};
  request.top_logprobs = 1;
  const Answer answer = run_alone(tiny_model(), plain_tokenizer(), request);
  const std::vector<TokenId> kept(ids.begin(), ids.begin() + static_cast<int64_t>(at));
  std::string text = numbered_text(kept);
  text.pop_back();
  EXPECT_EQ(answer.text, text);
  EXPECT_EQ(answer.ids, kept);
  EXPECT_EQ(answer.finish, FinishReason::kStop);
  for (const OutputToken& token : answer.tokens) EXPECT_EQ(token.top.size(), 1U);
}

TEST(Engine, RunsToTheEndOfTheContext) {
  constexpr int64_t kContext = 40;
  for (const int64_t length : {kContext, kContext - 1, kContext - 2, int64_t{1}}) {
    SCOPED_TRACE(length);
    const std::vector<TokenId> prompt = random_prompt(6, length);
    Engine engine(tiny_model(), plain_tokenizer(), {.context = kContext, .prefill_rows = 64});
    Answer answer;
    submit(engine, make_request(prompt, -1), answer);
    engine.run();
    EXPECT_EQ(answer.ids, greedy_ids(prompt, kContext - length + 1));
    EXPECT_EQ(answer.finish, FinishReason::kLength);
    EXPECT_EQ(engine.engine_stats().kv_blocks_free, engine.engine_stats().kv_blocks);
  }
}

std::string refusal(const Request& request, int64_t context = 40) {
  Engine engine(tiny_model(), plain_tokenizer(), {.context = context});
  try {
    engine.submit(request);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(engine.engine_stats().waiting, 0);
    EXPECT_FALSE(engine.step());
    return error.what();
  }
  return "accepted";
}

TEST(Engine, RefusesAPromptBeyondTheContextC18) {
  EXPECT_THAT(refusal(make_request(random_prompt(1, 41), 1)),
              AllOf(HasSubstr("41"), HasSubstr("40"), HasSubstr("context")));
  EXPECT_EQ(refusal(make_request(random_prompt(1, 40), 1)), "accepted");
}

TEST(Engine, RefusesTokensOutsideTheVocabularyC16) {
  for (const TokenId bad :
       {-1, kTinyVocab, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()}) {
    EXPECT_THAT(refusal(make_request({3, bad, 4}, 1)),
                AllOf(HasSubstr(std::to_string(bad)), HasSubstr("prompt"), HasSubstr("96")));
    Request biased = make_request({3}, 1);
    biased.sampling.logit_bias = {{bad, 1.0f}};
    EXPECT_THAT(refusal(biased), AllOf(HasSubstr(std::to_string(bad)), HasSubstr("logit_bias")));
  }
  EXPECT_EQ(refusal(make_request({0, kTinyVocab - 1}, 1)), "accepted");
}

TEST(Engine, RefusesWhatMakesNoSense) {
  EXPECT_THAT(refusal(make_request({}, 1)), HasSubstr("prompt is empty"));
  EXPECT_THAT(refusal(make_request({1}, -2)), HasSubstr("max_tokens"));
  Request stop = make_request({1}, 1);
  stop.stop = {"x", ""};
  EXPECT_THAT(refusal(stop), HasSubstr("stop string is empty"));
  stop.stop = {"\xAC|"};  // the end of a character: cutting there would leave its beginning
  EXPECT_THAT(refusal(stop), HasSubstr("UTF-8"));
  Request nan = make_request({1}, 1);
  nan.sampling.temperature = std::nanf("");
  EXPECT_THAT(refusal(nan), HasSubstr("temperature"));
  nan = make_request({1}, 1);
  nan.sampling.top_p = std::nanf("");
  EXPECT_THAT(refusal(nan), HasSubstr("top_p"));
}

std::string refused_options(const EngineOptions& options) {
  try {
    Engine engine(tiny_model(), plain_tokenizer(), options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}

TEST(Engine, RefusesOptionsOutOfRange) {
  EXPECT_THAT(refused_options({.context = 4097}), AllOf(HasSubstr("context"), HasSubstr("4097")));
  EXPECT_THAT(refused_options({.context = 1}), HasSubstr("context"));
  EXPECT_THAT(refused_options({.context = -5}), HasSubstr("-5"));
  EXPECT_THAT(refused_options({.context = 32, .max_sequences = 0}), HasSubstr("max_sequences"));
  EXPECT_THAT(refused_options({.context = 32, .max_sequences = 4097}), HasSubstr("4097"));
  EXPECT_THAT(refused_options({.context = 32, .prefill_rows = 0}), HasSubstr("prefill_rows"));
  EXPECT_EQ(refused_options({.context = 32}), "accepted");
  EXPECT_EQ(Engine(tiny_model(), plain_tokenizer(), {}).context(), 4096);
}

TEST(Engine, HasNothingToDoWithoutRequests) {
  Engine engine(tiny_model(), plain_tokenizer(), {.context = 32});
  EXPECT_FALSE(engine.step());
  engine.run();
  engine.cancel(1);
  engine.forget(1);
  EXPECT_EQ(engine.stats(1), nullptr);
  EXPECT_EQ(engine.engine_stats().steps, 0);
}

// A request that needs no output is served all the same.
TEST(Engine, WorksWithoutAListener) {
  Engine engine(tiny_model(), plain_tokenizer(), {.context = 32});
  const int64_t id = engine.submit(make_request(random_prompt(1, 5), 4));
  engine.run();
  EXPECT_EQ(engine.stats(id)->completion_tokens, 4);
  engine.forget(id);
  EXPECT_EQ(engine.stats(id), nullptr);
}

TEST(Engine, KeepsStatisticsThatAddUp) {
  Engine engine(tiny_model(), plain_tokenizer(),
                {.context = 64, .max_sequences = 3, .prefill_rows = 8});
  std::vector<Answer> answers(5);
  std::vector<int64_t> ids;
  for (size_t i = 0; i < 5; ++i)
    ids.push_back(submit(engine,
                         make_request(random_prompt(i, 5 + 6 * static_cast<int64_t>(i)),
                                      1 + 4 * static_cast<int64_t>(i)),
                         answers[i]));
  EXPECT_EQ(engine.engine_stats().waiting, 5);
  engine.step();
  EXPECT_EQ(engine.engine_stats().running + engine.engine_stats().waiting, 4);  // one is done
  engine.run();
  int64_t rows = 0;
  for (size_t i = 0; i < 5; ++i) {
    const RequestStats& stats = *engine.stats(ids[i]);
    EXPECT_EQ(stats.completion_tokens, static_cast<int64_t>(answers[i].ids.size()));
    EXPECT_EQ(stats.target_steps, stats.completion_tokens);
    EXPECT_EQ(stats.drafted, 0);
    EXPECT_GE(stats.ttft_ms, 0.0);
    EXPECT_GE(stats.total_ms, stats.ttft_ms);
    EXPECT_GE(stats.other_ms, 0.0);
    EXPECT_GT(stats.prefill_ms, 0.0);
    rows += stats.prompt_tokens + stats.completion_tokens - 1;  // the last is never fed back
  }
  const EngineStats stats = engine.engine_stats();
  EXPECT_EQ(stats.rows, rows);
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_EQ(stats.kv_blocks, 3 * 64 / kKvBlockTokens);
  EXPECT_EQ(stats.kv_blocks_free, stats.kv_blocks);
  EXPECT_GT(stats.kv_bytes, 0);
}

}  // namespace
}  // namespace clover
