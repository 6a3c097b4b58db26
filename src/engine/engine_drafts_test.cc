// SPDX-License-Identifier: Apache-2.0
// What speculation counts, and what it does when things go wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>

#include "engine/speculation_fixtures.h"

namespace clover {
namespace {

using namespace engine_testing;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const FakeTokenizer& tokenizer() {
  static const FakeTokenizer tokens(numbered_pieces());
  return tokens;
}

// A3: right k deep gives exactly k + 1 tokens a pass, but for the first, which reads the prompt.
TEST(Drafts, RightKDeepGivesKPlusOneTokensAStepA3) {
  const Request request = make_request(random_prompt(3, 9), 61);
  const Answer plain = run_alone(tiny_model(), tokenizer(), request);
  ASSERT_EQ(plain.ids.size(), 61u);
  for (const int32_t k : {0, 1, 2, 3, 5}) {
    EngineOptions options{.context = 128};
    options.speculators = {scripted(
        {.texts = {whole_text(request, plain)}, .vocab = kTinyVocab, .right = k, .depth = 6},
        nullptr)};
    options.tree = TreePolicy::parse("chain6");
    Engine engine(tiny_model(), tokenizer(), options);
    const Counted drafted = run_counted(engine, request);
    EXPECT_TRUE(same_answer(drafted.answer, plain));
    // One token comes with the prompt, 60 in blocks of k + 1.
    EXPECT_EQ(drafted.stats.target_steps, 1 + 60 / (k + 1)) << k;
    EXPECT_EQ(drafted.stats.accepted, 60 - 60 / (k + 1)) << k;
    for (int32_t d = 0; d < 6; ++d) {
      const auto accepted = drafted.stats.accepted_at_depth.at(static_cast<size_t>(d));
      EXPECT_EQ(accepted, d < k ? 60 / (k + 1) : 0) << k << " " << d;
    }
    // Towards the end a chain is no deeper than what may still be drawn behind it.
    EXPECT_EQ(drafted.stats.drafted,
              std::accumulate(drafted.stats.drafted_at_depth.begin(),
                              drafted.stats.drafted_at_depth.end(), int64_t{0}));
    // All but the last of a block had been drafted.
    for (size_t i = 0; i < drafted.answer.tokens.size(); ++i)
      EXPECT_EQ(drafted.answer.tokens[i].drafted, i > 0 && i % static_cast<size_t>(k + 1) != 0)
          << k << " " << i;
  }
}

// C3: stop strings cut at the same place whatever part of the text was drafted in one block.
TEST(Drafts, StopStringsWorkInsideDraftedBlocksC3) {
  Request request = make_request(random_prompt(23, 10), 40);
  request.ignore_eos = true;
  const Answer whole = run_alone(tiny_model(), tokenizer(), request);
  ScriptedSpeculator::Script script;
  script.texts = {whole_text(request, whole)};
  script.vocab = kTinyVocab;
  for (const size_t at : {0, 1, 5, 17, 38}) {
    for (const int64_t tokens : {1, 2, 3}) {
      if (at + static_cast<size_t>(tokens) > whole.ids.size()) continue;
      const auto begin = whole.ids.begin() + static_cast<int64_t>(at);
      request.stop = {numbered_text(std::vector<TokenId>(begin, begin + tokens)), "never"};
      const Answer plain = run_alone(tiny_model(), tokenizer(), request);
      EXPECT_EQ(plain.finish, FinishReason::kStop);
      for (const int32_t right : {0, 1, 7, 64}) {
        std::vector<std::string> faults;
        script.right = right;
        EngineOptions options{.context = 128};
        options.speculators = {scripted(script, &faults)};
        options.tree.kind = TreePolicy::Kind::kChain;
        options.tree.nodes = 20;
        const Answer drafted = run_alone(tiny_model(), tokenizer(), request, options);
        EXPECT_TRUE(same_answer(drafted, plain)) << at << " " << tokens << " " << right;
        EXPECT_THAT(faults, testing::IsEmpty());
      }
    }
  }
}

// Always wrong: the planner learns that its drafts are worth nothing.
TEST(Drafts, AutoLearnsThatASpeculatorIsWrong) {
  const Request request = make_request(random_prompt(3, 9), 100);
  EngineOptions options{.context = 128};
  options.speculators = {
      scripted({.texts = {}, .vocab = kTinyVocab, .right = 0, .depth = 8}, nullptr)};
  Engine engine(tiny_model(), tokenizer(), options);
  Answer answer;
  const int64_t id = submit(engine, request, answer);
  engine.run();
  EXPECT_TRUE(same_answer(answer, run_alone(tiny_model(), tokenizer(), request)));
  EXPECT_EQ(engine.stats(id)->accepted, 0);
  const std::vector<Vote> claim = {{0, 0, 0.9f}};
  EXPECT_LT(engine.drafter()->calibration().probability(claim), 0.2f);
}

// A12, A13: after every step of a run with ragged acceptance, the speculator has been told of every
// committed token once and in order (the script checks it); ten thousand steps.
TEST(Drafts, SpeculatorsFollowTheCommittedTokensA12) {
  std::vector<std::string> faults;
  int64_t steps = 0;
  for (uint64_t seed = 0; steps < 10000; ++seed) {
    std::vector<Request> requests;
    std::vector<std::vector<int32_t>> texts;
    for (uint64_t i = 0; i < 6; ++i) {
      Request request = make_request(random_prompt(seed * 10 + i, 3 + static_cast<int64_t>(i) * 5),
                                     40 + static_cast<int64_t>(i));
      request.sampling.temperature = 1.0f;
      request.sampling.seed = seed;
      texts.push_back(whole_text(request, run_alone(tiny_model(), tokenizer(), request)));
      // Where the script leaves the text, it goes on with another one: ragged acceptance.
      for (size_t t = 20 + i; t < texts.back().size(); t += 7 + i) texts.back()[t] ^= 1;
      requests.push_back(std::move(request));
    }
    EngineOptions options{.context = 96, .max_sequences = 3, .prefill_rows = 8};
    options.speculators = {scripted({.texts = texts,
                                     .vocab = kTinyVocab,
                                     .right = 1 + static_cast<int32_t>(seed % 5),
                                     .depth = 6},
                                    &faults),
                           ngram(), recycling(), draft_model(), untrained("clover2", tiny_model())};
    options.tree = TreePolicy::parse(seed % 2 == 0 ? "6" : "auto");
    Engine engine(tiny_model(), tokenizer(), options);
    std::vector<Answer> answers(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) submit(engine, requests[i], answers[i]);
    engine.run();
    for (size_t i = 0; i < requests.size(); ++i)
      ASSERT_TRUE(same_answer(answers[i], run_alone(tiny_model(), tokenizer(), requests[i])));
    steps += 6 * engine.engine_stats().steps;
  }
  EXPECT_THAT(faults, IsEmpty());
}

// A16: what an output function throws ends its request; the others go on.
TEST(Drafts, AThrowingOutputEndsItsRequestOnlyA16) {
  EngineOptions options{.context = 128, .max_sequences = 2};
  options.speculators = {ngram(), recycling()};
  Engine engine(tiny_model(), tokenizer(), options);
  Request bad = make_request(random_prompt(1, 5), 30);
  int calls = 0;
  bad.on_output = [&](const Output&) {
    if (++calls == 3) throw std::runtime_error("no reader");
  };
  engine.submit(bad);
  Answer good;
  const Request fine = make_request(random_prompt(2, 5), 30);
  submit(engine, fine, good);
  EXPECT_THROW(
      {
        while (engine.step()) {
        }
      },
      std::runtime_error);
  engine.run();
  EXPECT_EQ(calls, 3);
  EXPECT_TRUE(same_answer(good, run_alone(tiny_model(), tokenizer(), fine)));
  EXPECT_EQ(engine.engine_stats().kv_blocks_free, engine.engine_stats().kv_blocks);
}

// A4: the frequencies of the second and third token, which come from drafted trees, are those of
// the enumerated distribution; 200,000 draws over a vocabulary of eight.
TEST(Drafts, DrawsFollowTheDistributionA4) {
  constexpr int64_t kDraws = 200000;
  constexpr int32_t kTokens = 8;
  Request request = make_request(random_prompt(6, 4), 3);
  request.sampling.temperature = 1.2f;
  for (int32_t id = kTokens; id < kTinyVocab; ++id)
    request.sampling.logit_bias.emplace_back(id, -std::numeric_limits<float>::infinity());
  // From passes over every beginning.
  const auto distribution = [&](const std::vector<TokenId>& text) {
    const SamplerState sampler(request.sampling, {}, kTinyVocab);
    const std::vector<float> logits = all_logits(*tiny_model(), text).back();
    std::vector<double> p(kTokens);
    double sum = 0;
    for (int32_t i = 0; i < kTokens; ++i)
      sum += p[static_cast<size_t>(i)] =
          std::exp(static_cast<double>(logits[static_cast<size_t>(i)]) / 1.2);
    for (double& value : p) value /= sum;
    return p;
  };
  std::map<std::pair<TokenId, TokenId>, double> expected;
  const std::vector<double> first = distribution(request.prompt);
  for (int32_t a = 0; a < kTokens; ++a) {
    std::vector<TokenId> text = request.prompt;
    text.push_back(a);
    const std::vector<double> second = distribution(text);
    for (int32_t b = 0; b < kTokens; ++b) {
      text.push_back(b);
      const std::vector<double> third = distribution(text);
      text.pop_back();
      for (int32_t c = 0; c < kTokens; ++c)
        expected[{b, c}] += first[static_cast<size_t>(a)] * second[static_cast<size_t>(b)] *
                            third[static_cast<size_t>(c)];
    }
  }
  EngineOptions options{.context = 16, .max_sequences = 64};
  options.speculators = {recycling(),
                         scripted({.texts = {}, .vocab = kTokens, .depth = 2}, nullptr)};
  options.tree = TreePolicy::parse("4");
  Engine engine(tiny_model(), tokenizer(), options);
  std::map<std::pair<TokenId, TokenId>, int64_t> seen;
  std::vector<Answer> answers(512);
  for (int64_t done = 0; done < kDraws / 2; done += std::ssize(answers)) {
    for (size_t i = 0; i < answers.size(); ++i) {
      answers[i] = {};
      request.sampling.seed = static_cast<uint64_t>(done) + i;
      engine.forget(submit(engine, request, answers[i]));
    }
    engine.run();
    for (const Answer& answer : answers) ++seen[{answer.ids.at(1), answer.ids.at(2)}];
  }
  EXPECT_GT(engine.engine_stats().accepted, kDraws / 40);
  double chi = 0;
  double total = 0;
  for (const auto& [pair, count] : seen) total += static_cast<double>(count);
  for (const auto& [pair, p] : expected) {
    const double difference = static_cast<double>(seen[pair]) - p * total;
    chi += difference * difference / (p * total);
  }
  // 63 degrees of freedom: the mean is 63, 126 has a probability of 1e-6.
  EXPECT_LT(chi, 126.0);
}

}  // namespace
}  // namespace clover
