// SPDX-License-Identifier: Apache-2.0
// An answer depends on its request alone: not on chunks, company, arrival or threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/engine_fixtures.h"

namespace clover {
namespace {

using namespace engine_testing;

const FakeTokenizer& tokenizer() {
  static const FakeTokenizer made(numbered_pieces(), {11});
  return made;
}

// Eight requests of different lengths, half of them sampled, with most of what a request can ask.
std::vector<Request> eight_requests() {
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 8; ++i) {
    const auto n = static_cast<int64_t>(i);
    Request request = make_request(random_prompt(50 + i, 3 + 9 * n), 8 + 5 * (7 - n));
    request.sampling.temperature = i % 2 == 0 ? 0.0f : 0.8f;
    request.sampling.seed = 1000 + i;
    request.top_logprobs = static_cast<int>(i % 3) - 1;
    if (i == 2) request.sampling.repetition_penalty = 1.5f;
    if (i == 3) request.sampling.top_k = 20;
    if (i == 4) request.sampling.frequency_penalty = 0.7f;
    if (i == 5) request.sampling.top_p = 0.7f;
    if (i == 6) request.sampling.presence_penalty = 1.1f;
    if (i == 7) request.sampling.min_tokens = 5;
    requests.push_back(request);
  }
  return requests;
}

void expect_equals_reference(const Answer& answer, const Request& request) {
  const std::vector<Draw> draws = reference_draws(*tiny_model(), request, tokenizer().eos_ids());
  ASSERT_EQ(answer.ids, ids_of(draws));
  for (size_t i = 0; i < draws.size(); ++i) {
    EXPECT_EQ(answer.tokens[i].logprob, draws[i].logprob);
    ASSERT_EQ(answer.tokens[i].top.size(), draws[i].top.size());
    for (size_t k = 0; k < draws[i].top.size(); ++k) {
      EXPECT_EQ(answer.tokens[i].top[k].id, draws[i].top[k].id);
      EXPECT_EQ(answer.tokens[i].top[k].logprob, draws[i].top[k].logprob);
    }
  }
}

TEST(EngineBatch, EveryRequestAloneEqualsFreshPasses) {
  for (const Request& request : eight_requests())
    expect_equals_reference(run_alone(tiny_model(), tokenizer(), request), request);
}

// E3: the prompt in chunks of any size, ids and log-probabilities bit for bit.
TEST(EngineBatch, ChunksOfThePromptChangeNothingE3) {
  for (const Request& request : eight_requests()) {
    const Answer whole = run_alone(tiny_model(), tokenizer(), request);
    for (const int64_t rows : {1, 2, 7, 16, 17, 64})
      EXPECT_TRUE(same_answer(whole, run_alone(tiny_model(), tokenizer(), request,
                                               {.context = 128, .prefill_rows = rows})))
          << rows;
  }
}

// A10, D9, D14: eight at once, arriving in any order and at any time, each as if alone.
TEST(EngineBatch, EightAtOnceEqualEachAloneA10) {
  const std::vector<Request> requests = eight_requests();
  std::vector<Answer> alone;
  for (const Request& request : requests)
    alone.push_back(run_alone(tiny_model(), tokenizer(), request));
  for (uint64_t order = 0; order < 12; ++order) {
    SCOPED_TRACE(order);
    const auto bits = [&](uint64_t lane) { return random_bits(stream_key(99, order), lane); };
    const EngineOptions options{.context = 128,
                                .max_sequences = 1 + static_cast<int64_t>(bits(0) % 8),
                                .prefill_rows = 1 + static_cast<int64_t>(bits(1) % 70)};
    Engine engine(tiny_model(), tokenizer(),
                  order == 0 ? EngineOptions{.context = 128, .max_sequences = 8} : options);
    std::vector<size_t> arrivals = {0, 1, 2, 3, 4, 5, 6, 7};
    for (size_t i = 7; i > 0; --i) std::swap(arrivals[i], arrivals[bits(10 + i) % (i + 1)]);
    std::vector<Answer> together(8);
    for (size_t i = 0; i < 8; ++i) {
      submit(engine, requests[arrivals[i]], together[arrivals[i]]);
      if (order > 0)
        for (uint64_t steps = bits(20 + i) % 6; steps > 0; --steps) engine.step();
    }
    engine.run();
    for (size_t i = 0; i < 8; ++i) EXPECT_TRUE(same_answer(together[i], alone[i])) << i;
    EXPECT_EQ(engine.engine_stats().kv_blocks_free, engine.engine_stats().kv_blocks);
  }
}

// D9: the same seed gives the same text every time, alone and among others; another does not.
TEST(EngineBatch, SameSeedSameTextD9) {
  Request request = make_request(random_prompt(7, 12), 30);
  request.sampling.temperature = 0.8f;
  request.sampling.seed = 5;
  request.ignore_eos = true;
  const Answer alone = run_alone(tiny_model(), tokenizer(), request);
  EXPECT_TRUE(same_answer(alone, run_alone(tiny_model(), tokenizer(), request)));
  Engine engine(tiny_model(), tokenizer(), {.context = 128, .max_sequences = 8});
  std::vector<Answer> answers(8);
  for (size_t i = 0; i < 8; ++i) {
    Request one = request;
    if (i % 2 == 1) one.sampling.seed = 100 + i;
    submit(engine, one, answers[i]);
  }
  engine.run();
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(same_answer(answers[i], alone), i % 2 == 0) << i;
}

TEST(EngineBatch, ThreadsAndKvTypeAsGiven) {
  const auto threaded = load_tiny("gguf_qwen3_q4_0", 2);
  const std::vector<Request> requests = eight_requests();
  for (const DType type : {DType::kF16, DType::kF32}) {
    const EngineOptions options{.context = 128, .max_sequences = 8, .kv_type = type};
    Engine engine(threaded, tokenizer(), options);
    std::vector<Answer> together(8);
    for (size_t i = 0; i < 8; ++i) submit(engine, requests[i], together[i]);
    engine.run();
    for (size_t i = 0; i < 8; ++i)
      EXPECT_TRUE(
          same_answer(together[i], run_alone(tiny_model(), tokenizer(), requests[i], options)))
          << i;
  }
}

// G8: prompts are read beside the running answers: none of them waits more than its turn.
TEST(EngineBatch, ALongPromptDoesNotHoldUpOthersG8) {
  Engine engine(tiny_model(), tokenizer(),
                {.context = 256, .max_sequences = 3, .prefill_rows = 16});
  Answer running, reading, late;
  Request steady = make_request(random_prompt(1, 4), 40);
  steady.ignore_eos = true;
  submit(engine, steady, running);
  engine.step();
  submit(engine, make_request(random_prompt(2, 200), 2), reading);
  submit(engine, make_request(random_prompt(3, 8), 2), late);
  size_t said = running.ids.size();
  while (reading.ids.empty()) {
    engine.step();
    ASSERT_EQ(running.ids.size(), said + 1);
    said = running.ids.size();
  }
  EXPECT_EQ(said, 1U + (200 + 15) / 16);
  engine.run();
  EXPECT_EQ(running.ids.size(), 40U);
}

// D1: log-probabilities are the log-softmax of the model's own logits, for 0, 1 and 20 of them.
TEST(EngineBatch, LogprobsEqualTheLogitsD1) {
  for (const int top : {0, 1, 20}) {
    Request request = make_request(random_prompt(60, 13), 25);
    request.sampling.temperature = 1.2f;
    request.sampling.frequency_penalty = 0.5f;
    request.sampling.seed = 9;
    request.ignore_eos = true;
    request.top_logprobs = top;
    const Answer answer = run_alone(tiny_model(), tokenizer(), request);
    ASSERT_EQ(answer.ids.size(), 25U);
    std::vector<TokenId> tokens = request.prompt;
    tokens.insert(tokens.end(), answer.ids.begin(), answer.ids.end());
    const auto logits = all_logits(*tiny_model(), tokens);
    for (size_t i = 0; i < 25; ++i) {
      std::vector<float> row = logits[request.prompt.size() - 1 + i];
      double sum = 0;
      for (const float x : row) sum += std::exp(static_cast<double>(x));
      const auto logprob = [&](TokenId id) {
        return static_cast<double>(row[static_cast<size_t>(id)]) - std::log(sum);
      };
      EXPECT_NEAR(answer.tokens[i].logprob, logprob(answer.ids[i]), 1e-5);
      ASSERT_EQ(answer.tokens[i].top.size(), static_cast<size_t>(top));
      std::vector<TokenId> order(kTinyVocab);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
        return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
      });
      for (size_t k = 0; k < static_cast<size_t>(top); ++k) {
        EXPECT_EQ(answer.tokens[i].top[k].id, order[k]);
        EXPECT_NEAR(answer.tokens[i].top[k].logprob, logprob(order[k]), 1e-5);
      }
    }
  }
}

TEST(EngineBatch, NoLogprobsUnlessAsked) {
  const Answer answer =
      run_alone(tiny_model(), tokenizer(), make_request(random_prompt(60, 13), 5));
  for (const OutputToken& token : answer.tokens) {
    EXPECT_EQ(token.logprob, 0.0f);
    EXPECT_TRUE(token.top.empty());
  }
}

// D3, D4: penalties count the same tokens in every setting, and do something.
TEST(EngineBatch, PenaltiesAreTheSameInEverySettingD3) {
  std::vector<TokenId> loop;
  for (int i = 0; i < 8; ++i) loop.insert(loop.end(), {20, 21, 22});
  for (int which = 0; which < 3; ++which) {
    SCOPED_TRACE(which);
    Request request = make_request(loop, 40);
    request.ignore_eos = true;
    const Answer plain = run_alone(tiny_model(), tokenizer(), request);
    if (which == 0) request.sampling.repetition_penalty = 2.0f;
    if (which == 1) request.sampling.presence_penalty = 2.0f;
    if (which == 2) request.sampling.frequency_penalty = 2.0f;
    const Answer alone = run_alone(tiny_model(), tokenizer(), request);
    EXPECT_NE(alone.ids, plain.ids);
    EXPECT_EQ(alone.ids, ids_of(reference_draws(*tiny_model(), request)));
    for (const int64_t rows : {1, 7, 64}) {
      Engine engine(tiny_model(), tokenizer(),
                    {.context = 128, .max_sequences = 4, .prefill_rows = rows});
      std::vector<Answer> answers(4);
      for (size_t i = 0; i < 4; ++i)
        submit(engine, i % 2 ? make_request(random_prompt(i, 10), 20) : request, answers[i]);
      engine.run();
      EXPECT_TRUE(same_answer(answers[0], alone));
      EXPECT_TRUE(same_answer(answers[2], alone));
    }
  }
}

// D4, D6: minimum tokens and bias hold for every token of the answer.
TEST(EngineBatch, MinTokensAndBiasHoldForEveryTokenD6) {
  Request request = make_request(random_prompt(8, 10), 30);
  request.sampling.logit_bias = {{11, 100.0f}};  // the end of text
  request.sampling.min_tokens = 10;
  const Answer late = run_alone(tiny_model(), tokenizer(), request);
  EXPECT_EQ(late.ids.size(), 11U);
  EXPECT_EQ(late.finish, FinishReason::kStop);
  request.sampling.min_tokens = 0;
  const Answer free = run_alone(tiny_model(), tokenizer(), make_request(random_prompt(8, 10), 30));
  const TokenId often = free.ids.back();
  request.sampling.logit_bias = {{often, -100.0f}, {11, -100.0f}};
  const Answer without = run_alone(tiny_model(), tokenizer(), request);
  EXPECT_EQ(std::count(without.ids.begin(), without.ids.end(), often), 0);
  request.sampling.logit_bias = {{17, 100.0f}};
  EXPECT_EQ(run_alone(tiny_model(), tokenizer(), request).ids, std::vector<TokenId>(30, 17));
}

}  // namespace
}  // namespace clover
