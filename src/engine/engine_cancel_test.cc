// SPDX-License-Identifier: Apache-2.0
// Requests that end early, and those beside them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "engine/engine_fixtures.h"

namespace clover {
namespace {

using namespace engine_testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const FakeTokenizer& tokenizer() {
  static const FakeTokenizer made(numbered_pieces());
  return made;
}

bool all_free(const Engine& engine) {
  const EngineStats stats = engine.engine_stats();
  return stats.kv_blocks_free == stats.kv_blocks && stats.running == 0 && stats.waiting == 0;
}

TEST(EngineCancel, WhileWaitingC13) {
  Engine engine(tiny_model(), tokenizer(), {.context = 64, .max_sequences = 1});
  Answer first, second, third;
  submit(engine, make_request(random_prompt(1, 8), 6), first);
  const int64_t id = submit(engine, make_request(random_prompt(2, 8), 6), second);
  submit(engine, make_request(random_prompt(3, 8), 6), third);
  engine.step();
  engine.cancel(id);
  EXPECT_EQ(second.finish, FinishReason::kCancelled);
  EXPECT_THAT(second.ids, IsEmpty());
  engine.run();
  EXPECT_EQ(first.ids.size(), 6U);
  EXPECT_TRUE(same_answer(
      third, run_alone(tiny_model(), tokenizer(), make_request(random_prompt(3, 8), 6))));
  EXPECT_EQ(second.pieces, 1);
  EXPECT_EQ(engine.stats(id)->completion_tokens, 0);
  EXPECT_TRUE(all_free(engine));
}

TEST(EngineCancel, WhileReadingThePromptC13) {
  Engine engine(tiny_model(), tokenizer(), {.context = 64, .prefill_rows = 10});
  Answer answer, next;
  const int64_t id = submit(engine, make_request(random_prompt(1, 50), 6), answer);
  submit(engine, make_request(random_prompt(2, 8), 6), next);
  engine.step();
  engine.step();
  EXPECT_LT(engine.engine_stats().kv_blocks_free, engine.engine_stats().kv_blocks);
  engine.cancel(id);
  EXPECT_EQ(answer.finish, FinishReason::kCancelled);
  engine.step();  // its place is free within one step
  EXPECT_EQ(next.ids.size(), 1U);
  engine.run();
  EXPECT_TRUE(all_free(engine));
  EXPECT_TRUE(same_answer(
      next, run_alone(tiny_model(), tokenizer(), make_request(random_prompt(2, 8), 6))));
}

TEST(EngineCancel, WhileDecodingC13) {
  Engine engine(tiny_model(), tokenizer(), {.context = 64, .max_sequences = 2});
  Answer answer, other;
  const int64_t id = submit(engine, make_request(random_prompt(1, 20), 40), answer);
  submit(engine, make_request(random_prompt(2, 8), 12), other);
  for (int i = 0; i < 5; ++i) engine.step();
  const int64_t free_before = engine.engine_stats().kv_blocks_free;
  engine.cancel(id);
  engine.cancel(id);
  EXPECT_EQ(answer.finish, FinishReason::kCancelled);
  EXPECT_EQ(answer.ids.size(), 5U);
  EXPECT_EQ(engine.stats(id)->completion_tokens, 5);
  engine.step();
  EXPECT_GT(engine.engine_stats().kv_blocks_free, free_before);
  EXPECT_EQ(engine.engine_stats().running, 1);
  engine.run();
  EXPECT_THAT(answer.faults, IsEmpty());
  EXPECT_TRUE(same_answer(
      other, run_alone(tiny_model(), tokenizer(), make_request(random_prompt(2, 8), 12))));
  EXPECT_TRUE(all_free(engine));
}

// Text that was held back for a stop string belongs to a cancelled answer too.
TEST(EngineCancel, GivesOutWhatWasHeldBack) {
  const auto prompt = random_prompt(1, 20);
  const auto ids = ids_of(reference_draws(*tiny_model(), make_request(prompt, 3)));
  Request request = make_request(prompt, 40);
  request.stop = {numbered_text(ids) + "never"};
  Engine engine(tiny_model(), tokenizer(), {.context = 64});
  Answer answer;
  const int64_t id = submit(engine, request, answer);
  for (int i = 0; i < 3; ++i) engine.step();
  EXPECT_EQ(answer.pieces, 0);
  EXPECT_EQ(engine.stats(id)->completion_tokens, 3);
  engine.cancel(id);
  EXPECT_EQ(answer.ids, ids);
  EXPECT_EQ(answer.text, numbered_text(ids));
}

TEST(EngineCancel, FromItsOwnOutput) {
  Engine engine(tiny_model(), tokenizer(), {.context = 64, .max_sequences = 2});
  Answer answer, other;
  int64_t id = 0;
  Request request = make_request(random_prompt(1, 20), 40);
  request.on_output = [&](const Output& output) {
    answer.add(output);
    if (answer.ids.size() == 4) engine.cancel(id);
  };
  id = engine.submit(request);
  submit(engine, make_request(random_prompt(2, 8), 12), other);
  engine.run();
  EXPECT_EQ(answer.finish, FinishReason::kCancelled);
  EXPECT_EQ(answer.ids.size(), 4U);
  EXPECT_THAT(answer.faults, IsEmpty());
  EXPECT_EQ(other.ids.size(), 12U);
  EXPECT_TRUE(all_free(engine));
}

// One output ends all others, wherever they are: before it in the batch, behind it, still waiting.
TEST(EngineCancel, OfOthersFromAnOutput) {
  Engine engine(tiny_model(), tokenizer(), {.context = 64, .max_sequences = 3});
  std::vector<Answer> answers(5);
  std::vector<int64_t> ids(5);
  for (size_t i = 0; i < 5; ++i) {
    Request request = make_request(random_prompt(i, 10), 12);
    request.on_output = [&, i](const Output& output) {
      answers[i].add(output);
      if (i == 1 && answers[1].ids.size() == 3)
        for (const size_t other : {0, 2, 3, 4}) engine.cancel(ids[other]);
    };
    ids[i] = engine.submit(request);
  }
  engine.run();
  EXPECT_EQ(answers[1].ids.size(), 12U);
  EXPECT_EQ(answers[0].ids.size(), 3U);
  EXPECT_EQ(answers[2].ids.size(), 2U);
  EXPECT_THAT(answers[3].ids, IsEmpty());
  for (const size_t i : {0, 2, 3, 4}) EXPECT_EQ(answers[i].finish, FinishReason::kCancelled) << i;
  for (const Answer& answer : answers) EXPECT_THAT(answer.faults, IsEmpty());
  EXPECT_TRUE(all_free(engine));
}

// A16: a request whose draw fails ends alone.
TEST(EngineFailure, ARequestWithoutATokenToDrawEndsAloneA16) {
  Request bad = make_request(random_prompt(9, 10), 5);
  for (TokenId i = 0; i < kTinyVocab; ++i)
    bad.sampling.logit_bias.emplace_back(i, -std::numeric_limits<float>::infinity());
  Engine engine(tiny_model(), tokenizer(), {.context = 64, .max_sequences = 3});
  Answer before, failed, behind;
  submit(engine, make_request(random_prompt(1, 10), 8), before);
  const int64_t id = submit(engine, bad, failed);
  submit(engine, make_request(random_prompt(2, 10), 8), behind);
  engine.run();
  EXPECT_EQ(failed.finish, FinishReason::kError);
  EXPECT_THAT(failed.error, HasSubstr("no token is left"));
  EXPECT_THAT(failed.ids, IsEmpty());
  EXPECT_EQ(engine.stats(id)->completion_tokens, 0);
  for (const auto& [answer, seed] : {std::pair{&before, 1}, std::pair{&behind, 2}}) {
    const auto request = make_request(random_prompt(static_cast<uint64_t>(seed), 10), 8);
    EXPECT_TRUE(same_answer(*answer, run_alone(tiny_model(), tokenizer(), request)));
  }
  EXPECT_TRUE(all_free(engine));
}

// Cannot decode one of its tokens.
class BrokenTokenizer : public FakeTokenizer {
 public:
  explicit BrokenTokenizer(TokenId bad) : FakeTokenizer(numbered_pieces()), bad_(bad) {}
  std::string_view token_bytes(TokenId id) const override {
    if (id == bad_) fail(ErrorCode::kCorrupt, "token {} is broken", id);
    return FakeTokenizer::token_bytes(id);
  }

 private:
  TokenId bad_;
};

// A16: neither does one that fails in mid-answer take others along; what it said stays said.
TEST(EngineFailure, AFailureInMidAnswerKeepsWhatWasSaidA16) {
  const auto prompt = random_prompt(3, 10);
  const auto ids = ids_of(reference_draws(*tiny_model(), make_request(prompt, 20)));
  const TokenId greatest = *std::max_element(ids.begin(), ids.end());
  const auto at = std::find(ids.begin(), ids.end(), greatest);
  ASSERT_NE(at, ids.begin());
  const BrokenTokenizer broken(greatest);
  Request fine = make_request(random_prompt(4, 10), 20);
  fine.sampling.logit_bias.emplace_back(5, 100.0f);
  Engine engine(tiny_model(), broken, {.context = 64, .max_sequences = 2});
  Answer failed, other;
  submit(engine, make_request(prompt, 20), failed);
  submit(engine, fine, other);
  engine.run();
  EXPECT_EQ(failed.finish, FinishReason::kError);
  EXPECT_THAT(failed.error, HasSubstr(std::to_string(greatest)));
  EXPECT_EQ(failed.ids, std::vector<TokenId>(ids.begin(), at));
  EXPECT_EQ(failed.text, numbered_text(failed.ids));
  EXPECT_EQ(other.ids, std::vector<TokenId>(20, 5));
  EXPECT_TRUE(all_free(engine));
}

// KV memory is reserved for the worst case: every place filled to the end of the context.
TEST(EngineFailure, NeverRunsOutOfKvMemory) {
  for (const int64_t context : {31, 32, 33}) {
    Engine engine(tiny_model(), tokenizer(),
                  {.context = context, .max_sequences = 4, .prefill_rows = 16});
    std::vector<Answer> answers(9);
    for (size_t i = 0; i < answers.size(); ++i)
      submit(engine, make_request(random_prompt(i, 1 + 3 * static_cast<int64_t>(i)), -1),
             answers[i]);
    while (engine.step()) ASSERT_GE(engine.engine_stats().kv_blocks_free, 0);
    for (size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(answers[i].finish, FinishReason::kLength);
      EXPECT_EQ(static_cast<int64_t>(answers[i].ids.size()), context - 3 * static_cast<int64_t>(i));
    }
    EXPECT_TRUE(all_free(engine));
  }
}

// C13: hundreds of requests, cancelled at random moments, leave nothing behind.
TEST(EngineCancel, RandomRequestsAndCancels) {
  constexpr size_t kRequests = 300;
  const auto bits = [](uint64_t a, uint64_t b) { return random_bits(stream_key(4711, a), b); };
  const FakeTokenizer with_eos(numbered_pieces(), {7, 60});
  const EngineOptions options{.context = 48, .max_sequences = 7, .prefill_rows = 24};
  Engine engine(tiny_model(), with_eos, options);
  std::vector<Request> requests;
  std::vector<Answer> answers(kRequests);
  std::vector<int64_t> ids;
  for (size_t i = 0; i < kRequests; ++i) {
    Request request = make_request(random_prompt(i, 1 + static_cast<int64_t>(bits(i, 0) % 40)),
                                   static_cast<int64_t>(bits(i, 1) % 25) - 1);
    if (bits(i, 2) % 2) request.sampling.temperature = 0.8f;
    request.sampling.seed = i;
    if (bits(i, 3) % 3 == 0) request.stop = {fmt::format("[{}]", bits(i, 4) % 96), "]["};
    if (bits(i, 5) % 4 == 0) request.sampling.repetition_penalty = 1.3f;
    requests.push_back(std::move(request));
  }
  uint64_t step = 0;
  bool more = true;
  while (more || ids.size() < kRequests) {
    for (uint64_t n = bits(step, 10) % 4; n > 0 && ids.size() < kRequests; --n)
      ids.push_back(submit(engine, requests[ids.size()], answers[ids.size()]));
    if (!ids.empty() && bits(step, 11) % 3 == 0) {
      const uint64_t back = bits(step, 12) % std::min<uint64_t>(ids.size(), 20);
      engine.cancel(ids[ids.size() - 1 - back]);
    }
    more = engine.step();
    const EngineStats stats = engine.engine_stats();
    ASSERT_LE(stats.running, options.max_sequences);
    ++step;
  }
  EXPECT_TRUE(all_free(engine));
  size_t cancelled = 0, compared = 0;
  for (size_t i = 0; i < kRequests; ++i) {
    ASSERT_NE(answers[i].finish, FinishReason::kNone) << i;
    ASSERT_NE(answers[i].finish, FinishReason::kError) << answers[i].error;
    EXPECT_THAT(answers[i].faults, IsEmpty());
    const RequestStats* stats = engine.stats(ids[i]);
    ASSERT_NE(stats, nullptr);
    EXPECT_EQ(stats->completion_tokens, static_cast<int64_t>(answers[i].ids.size()));
    EXPECT_EQ(stats->prompt_tokens, static_cast<int64_t>(requests[i].prompt.size()));
    if (answers[i].finish == FinishReason::kCancelled) {
      ++cancelled;
    } else if (i % 4 == 0) {
      ++compared;
      EXPECT_TRUE(
          same_answer(answers[i], run_alone(tiny_model(), with_eos, requests[i], {.context = 48})))
          << i;
    }
  }
  EXPECT_GT(cancelled, 10U);
  EXPECT_LT(cancelled, 250U);
  EXPECT_GT(compared, 20U);
}

}  // namespace
}  // namespace clover
