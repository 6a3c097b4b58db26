// SPDX-License-Identifier: Apache-2.0
// Predictions of the answer: fewer steps where they are right, the same text always.
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

EngineOptions with_predictions(std::vector<SpeculatorFactory> speculators = {}) {
  EngineOptions options{.context = 256, .max_sequences = 4};
  options.predictions = true;
  options.speculators = std::move(speculators);
  options.tree.kind = TreePolicy::Kind::kNodes;  // whatever the machine is busy with
  options.tree.nodes = 8;
  return options;
}

Request long_request(float temperature = 0.0f) {
  Request request = make_request(random_prompt(8, 20), 100);
  request.ignore_eos = true;
  request.sampling.temperature = temperature;
  request.sampling.seed = 3;
  request.top_logprobs = 1;
  return request;
}

Counted outcome_of(const Request& request, const EngineOptions& options) {
  Engine engine(tiny_model(), tokenizer(), options);
  Counted run = run_counted(engine, request);
  EXPECT_EQ(engine.engine_stats().kv_blocks_free, engine.engine_stats().kv_blocks);
  return run;
}

TEST(EnginePrediction, RightOnesSaveStepsAndNoneChangesTheText) {
  for (const float temperature : {0.0f, 0.9f}) {
    Request request = long_request(temperature);
    const Answer plain = run_alone(tiny_model(), tokenizer(), request, {.context = 256});
    request.prediction = plain.ids;
    const Counted right = outcome_of(request, with_predictions());
    EXPECT_TRUE(same_answer(right.answer, plain));
    EXPECT_LE(right.stats.target_steps, 20);
    EXPECT_EQ(right.stats.predicted_said, 100);
    // Every tenth token is another one: the rest is found again.
    for (size_t i = 5; i < request.prediction.size(); i += 10)
      request.prediction[i] = (request.prediction[i] + 1) % kTinyVocab;
    const Counted mended = outcome_of(request, with_predictions());
    EXPECT_TRUE(same_answer(mended.answer, plain));
    EXPECT_LE(mended.stats.target_steps, 60);
    EXPECT_GE(mended.stats.predicted_said, 60);
    request.prediction = random_prompt(5, 256);
    const Counted wrong = outcome_of(request, with_predictions({ngram(), recycling()}));
    EXPECT_TRUE(same_answer(wrong.answer, plain));
  }
}

TEST(EnginePrediction, ShareATreeAndTheBatch) {
  std::vector<Request> requests;
  std::vector<Answer> alone, answers(6);
  for (size_t i = 0; i < answers.size(); ++i) {
    Request request = long_request(i % 2 == 0 ? 0.0f : 0.7f);
    request.prompt = random_prompt(i, 12);
    alone.push_back(run_alone(tiny_model(), tokenizer(), request, {.context = 256}));
    if (i < 4) request.prediction = alone.back().ids;
    if (i == 3) request.max_drafts = 2;
    requests.push_back(request);
  }
  EngineOptions options =
      with_predictions({ngram(), recycling(), draft_model(), untrained("clover2", tiny_model())});
  options.kv_tokens = 300;  // preempted on the way
  Engine engine(tiny_model(), tokenizer(), options);
  std::vector<int64_t> ids;
  for (size_t i = 0; i < answers.size(); ++i)
    ids.push_back(submit(engine, requests[i], answers[i]));
  engine.run();
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_TRUE(same_answer(answers[i], alone[i])) << i;
    EXPECT_EQ(engine.stats(ids[i])->predicted_said, i < 4 ? 100 : 0);
  }
  EXPECT_LT(engine.stats(ids[0])->target_steps, 40);
}

TEST(EnginePrediction, WithoutOtherSpeculatorsNothingElseDrafts) {
  const Counted plain = outcome_of(long_request(), with_predictions());
  EXPECT_EQ(plain.stats.drafted, 0);
  EXPECT_EQ(plain.stats.target_steps, 100);
}

TEST(EnginePrediction, IsCheckedC16) {
  const auto refusal = [](const std::vector<TokenId>& prediction, bool taken) {
    EngineOptions options{.context = 32};
    options.predictions = taken;
    Engine engine(tiny_model(), tokenizer(), options);
    Request request = make_request({1}, 3);
    request.prediction = prediction;
    try {
      engine.submit(request);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal({1, 2}, true), "");
  EXPECT_THAT(refusal({1, 2}, false), testing::HasSubstr("prediction"));
  EXPECT_THAT(refusal({1, -1}, true), testing::HasSubstr("-1"));
  EXPECT_THAT(refusal({kTinyVocab}, true), testing::HasSubstr("96"));
  EXPECT_THAT(refusal(random_prompt(1, 33), true), testing::HasSubstr("33"));
}

}  // namespace
}  // namespace clover
