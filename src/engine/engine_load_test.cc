// SPDX-License-Identifier: Apache-2.0
// More work than memory, long prompts beside answers, beginnings shared through the prefix cache:
// other steps, the same texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/speculation_fixtures.h"

namespace clover {
namespace {

using namespace engine_testing;

const FakeTokenizer& tokenizer() {
  static const FakeTokenizer made(numbered_pieces(), {11});
  return made;
}

std::vector<Request> mixed_requests(size_t count) {
  std::vector<Request> requests;
  for (size_t i = 0; i < count; ++i) {
    Request request = make_request(random_prompt(70 + i, 3 + static_cast<int64_t>(i * 7 % 40)),
                                   20 + static_cast<int64_t>(i * 11 % 30));
    request.sampling.temperature = i % 2 == 0 ? 0.0f : 0.9f;
    request.sampling.seed = i;
    if (i % 3 == 0) request.sampling.frequency_penalty = 0.5f;
    if (i % 4 == 0) request.top_logprobs = 2;
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<SpeculatorFactory> every_speculator() {
  return {ngram(), recycling(), draft_model(), untrained("clover2", tiny_model()),
          untrained("eagle", tiny_model())};
}

void expect_no_blocks_lost(const Engine& engine) {
  const EngineStats stats = engine.engine_stats();
  EXPECT_EQ(stats.kv_blocks_free + stats.kv_blocks_cached, stats.kv_blocks);
  EXPECT_EQ(stats.running + stats.waiting, 0);
}

// E11, A10: a pool far too small for the load; every request ends with its solo answer.
TEST(EngineLoad, PreemptedRequestsSayTheSameE11) {
  const std::vector<Request> requests = mixed_requests(12);
  std::vector<Answer> alone;
  for (const Request& request : requests)
    alone.push_back(run_alone(tiny_model(), tokenizer(), request));
  for (const bool drafts : {false, true}) {
    for (const bool cache : {false, true}) {
      EngineOptions options{.context = 96, .max_sequences = 8, .kv_tokens = 112};
      options.prefix_cache = cache;
      if (drafts) options.speculators = every_speculator();
      options.tree.kind = TreePolicy::Kind::kNodes;
      options.tree.nodes = 6;
      Engine engine(tiny_model(), tokenizer(), options);
      std::vector<Answer> answers(requests.size());
      for (size_t i = 0; i < requests.size(); ++i) submit(engine, requests[i], answers[i]);
      engine.run();
      for (size_t i = 0; i < requests.size(); ++i)
        EXPECT_TRUE(same_answer(answers[i], alone[i])) << i << " " << drafts << " " << cache;
      EXPECT_GT(engine.engine_stats().preemptions, 0);
      expect_no_blocks_lost(engine);
    }
  }
}

// The earliest keep their memory: who came first is never preempted for one behind it.
TEST(EngineLoad, TheLatestArrivalGivesWay) {
  Engine engine(tiny_model(), tokenizer(), {.context = 96, .max_sequences = 4, .kv_tokens = 96});
  std::vector<Answer> answers(4);
  std::vector<int64_t> ids;
  for (size_t i = 0; i < answers.size(); ++i) {
    Request request = make_request(random_prompt(i, 8), 70);
    request.ignore_eos = true;
    ids.push_back(submit(engine, request, answers[i]));
  }
  engine.run();
  EXPECT_EQ(engine.stats(ids.front())->preemptions, 0);
  EXPECT_GT(engine.stats(ids.back())->preemptions, 0);
  for (size_t i = 0; i + 1 < answers.size(); ++i)
    EXPECT_LE(engine.stats(ids[i])->preemptions, engine.stats(ids[i + 1])->preemptions);
  for (const Answer& answer : answers) EXPECT_EQ(answer.ids.size(), 70u);
}

// E9: nothing but the context itself fits; drafts find no room and decoding goes on.
TEST(EngineLoad, AFullPoolMeansPlainDecodingE9) {
  for (const int64_t length : {15, 16, 17, 31, 32}) {
    EngineOptions options{.context = 64, .max_sequences = 1, .kv_tokens = 64};
    options.speculators = every_speculator();
    options.tree = TreePolicy::parse("fixed25");
    Request request = make_request(random_prompt(1, length), -1);
    request.ignore_eos = true;
    const Answer drafted = run_alone(tiny_model(), tokenizer(), request, options);
    EXPECT_TRUE(
        same_answer(drafted, run_alone(tiny_model(), tokenizer(), request, {.context = 64})));
    EXPECT_EQ(std::ssize(drafted.ids), 65 - length);
  }
}

// G8: while a long prompt is read, every step brings tokens for those that are being answered.
TEST(EngineLoad, LongPromptsDoNotStopAnswersG8) {
  EngineOptions options{.context = 1024, .max_sequences = 3};
  options.stall_ms = 1e-6;  // as little as possible beside answers
  Engine engine(tiny_model(), tokenizer(), options);
  Request stream = make_request(random_prompt(1, 4), 200);
  stream.ignore_eos = true;
  Answer streamed, long_one;
  submit(engine, stream, streamed);
  engine.step();
  const Request reader = make_request(random_prompt(2, 700), 1);
  submit(engine, reader, long_one);
  int64_t steps = 0;
  while (long_one.finish == FinishReason::kNone && streamed.finish == FinishReason::kNone) {
    const size_t before = streamed.ids.size();
    const int64_t rows = engine.engine_stats().prompt_rows;
    ASSERT_TRUE(engine.step());
    EXPECT_GT(streamed.ids.size(), before);
    // The first chunk is a guess, the others keep to the least.
    EXPECT_LE(engine.engine_stats().prompt_rows - rows,
              steps == 0 ? ChunkBudget::kUnknown : ChunkBudget::kLeast);
    ++steps;
  }
  EXPECT_EQ(long_one.finish, FinishReason::kLength);  // it advanced under the load
  EXPECT_TRUE(
      same_answer(long_one, run_alone(tiny_model(), tokenizer(), reader, {.context = 1024})));
}

TEST(EngineLoad, ChunksFollowTheMeasuredTime) {
  ChunkBudget budget(256, 100.0);
  EXPECT_EQ(budget.rows(0), 256);
  EXPECT_EQ(budget.rows(3), ChunkBudget::kUnknown);
  budget.timed(64, 64, 64.0);  // a millisecond a row
  EXPECT_EQ(budget.rows(4), 96);
  EXPECT_EQ(budget.rows(1000), ChunkBudget::kLeast);
  for (int i = 0; i < 20; ++i) budget.timed(96, 100, 10.0);
  EXPECT_EQ(budget.rows(4), 256);
  budget.timed(1, 100, 1e9);  // a single row says nothing
  EXPECT_EQ(budget.rows(4), 256);
  EXPECT_EQ(ChunkBudget(8, 0.001).rows(5), 8);
}

// E1, E2, E5: warm equals cold in text and in what is accepted, for a full and a partial hit; what
// the usage says was cached was not computed.
TEST(PrefixCache, WarmEqualsColdE1E2E5) {
  std::vector<SpeculatorFactory> one_each = every_speculator();
  one_each.push_back({});
  for (size_t s = 0; s < one_each.size(); ++s) {
    EngineOptions options{.context = 512, .max_sequences = 2};
    if (one_each[s]) options.speculators = {one_each[s]};
    options.tree = TreePolicy::parse("4");
    std::vector<TokenId> prompt = random_prompt(9, 200);
    Request first = make_request(prompt, 40);
    first.ignore_eos = true;
    Request partial = first;  // begins alike, goes on differently in mid-block
    partial.prompt.resize(150);
    for (const TokenId id : random_prompt(10, 60)) partial.prompt.push_back(id);

    Engine cold(tiny_model(), tokenizer(), options);
    options.prefix_cache = true;
    Engine engine(tiny_model(), tokenizer(), options);
    for (const auto& [request, cached] :
         {std::pair{&first, 0}, std::pair{&first, 192}, std::pair{&partial, 144}}) {
      const Counted expected = run_counted(cold, *request);
      const int64_t rows = engine.engine_stats().prompt_rows;
      const Counted warm = run_counted(engine, *request);
      EXPECT_TRUE(same_answer(warm.answer, expected.answer)) << s;
      EXPECT_EQ(engine.engine_stats().prompt_rows - rows,
                warm.stats.prompt_tokens - warm.stats.cached_tokens);
      EXPECT_EQ(warm.stats.cached_tokens, cached) << s;  // up to the last full block
      EXPECT_EQ(warm.stats.drafted, expected.stats.drafted) << s;
      EXPECT_EQ(warm.stats.accepted, expected.stats.accepted) << s;
    }
    expect_no_blocks_lost(engine);
  }
}

// E4: keys and values of the speculator depend on the next token, so where two texts part at the
// edge of a block, the block before it is read again.
TEST(PrefixCache, TextsThatPartAtABlockEdgeE4) {
  for (const std::string type : {"clover2", "eagle"}) {
    EngineOptions options{.context = 256};
    options.speculators = {untrained(type, tiny_model())};
    options.tree = TreePolicy::parse("4");
    Request first = make_request(random_prompt(3, 65), 30);
    first.ignore_eos = true;
    Request other = first;
    other.prompt[64] = (other.prompt[64] + 1) % 64;
    Engine cold(tiny_model(), tokenizer(), options);
    run_counted(cold, first);
    const Counted expected = run_counted(cold, other);
    options.prefix_cache = true;
    Engine engine(tiny_model(), tokenizer(), options);
    run_counted(engine, first);
    const Counted warm = run_counted(engine, other);
    EXPECT_TRUE(same_answer(warm.answer, expected.answer));
    EXPECT_EQ(warm.stats.accepted, expected.stats.accepted);
    EXPECT_EQ(warm.stats.drafted, expected.stats.drafted);
    EXPECT_EQ(warm.stats.cached_tokens, 48);
  }
}

// A18, E6: sixteen requests that share a beginning, half of them cancelled in mid-answer, in little
// memory: the others equal their solo runs.
TEST(PrefixCache, SharingWithCancelledRequestsA18E6) {
  std::vector<Request> requests;
  for (size_t i = 0; i < 16; ++i) {
    Request request = make_request(random_prompt(5, 70), 30);
    for (const TokenId id : random_prompt(100 + i, 5 + static_cast<int64_t>(i)))
      request.prompt.push_back(id);
    request.sampling.temperature = 0.7f;
    request.sampling.seed = i;
    requests.push_back(std::move(request));
  }
  EngineOptions options{.context = 160, .max_sequences = 6, .kv_tokens = 320};
  options.speculators = every_speculator();
  options.prefix_cache = true;
  Engine engine(tiny_model(), tokenizer(), options);
  std::vector<Answer> answers(requests.size());
  std::vector<int64_t> ids;
  for (size_t i = 0; i < requests.size(); ++i)
    ids.push_back(submit(engine, requests[i], answers[i]));
  for (size_t step = 0; engine.step(); ++step)
    if (step % 3 == 2 && step / 3 * 2 < ids.size()) engine.cancel(ids[step / 3 * 2]);
  int64_t cached = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (answers[i].finish == FinishReason::kCancelled) continue;
    EXPECT_TRUE(same_answer(answers[i],
                            run_alone(tiny_model(), tokenizer(), requests[i], {.context = 160})))
        << i;
    cached += engine.stats(ids[i])->cached_tokens;
  }
  EXPECT_GT(cached, 0);
  expect_no_blocks_lost(engine);
}

// Requests that come together and begin alike: the beginning is read once.
TEST(PrefixCache, TogetherReadsTheBeginningOnce) {
  EngineOptions options{.context = 256, .max_sequences = 8};
  options.prefix_cache = true;
  Engine engine(tiny_model(), tokenizer(), options);
  std::vector<Answer> answers(8);
  for (size_t i = 0; i < answers.size(); ++i) {
    Request request = make_request(random_prompt(1, 100), 5);
    request.sampling.temperature = 1.0f;
    request.sampling.seed = i;
    submit(engine, request, answers[i]);
  }
  engine.run();
  EXPECT_EQ(engine.engine_stats().prompt_rows, 100 + 7 * (100 - 96));
}

}  // namespace
}  // namespace clover
