// SPDX-License-Identifier: Apache-2.0
// Answers that keep a schema: the same with every speculator as with none, and whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "constraint/json_schema.h"
#include "engine/speculation_fixtures.h"

namespace clover {
namespace {

using namespace engine_testing;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr TokenId kEnd = 95;

// The vocabulary of the tiny models: what JSON needs, pieces of it, and an end.
const FakeTokenizer& tokenizer() {
  static const FakeTokenizer made = [] {
    std::vector<std::string> pieces = {
        "{",   "}",    "[",    "]",     ":",     ",",        "\"",    " ",      "\n",   "\\",
        "-",   ".",    "e",    "\":",   "\",\"", "{\"",      "\"}",   "\"name", "name", "\"age",
        "age", "tags", "true", "false", "null",  "\": ",     "\":\"", "[\"",    "\"]",  "},",
        "]}",  "\n  ", "12",   "\xc3",  "\xa9",  "\xc3\xa9", "u00",   "tr",     "ue"};
    for (char c = '0'; c <= '9'; ++c) pieces.emplace_back(1, c);
    for (char c = 'a'; c <= 'z'; ++c) pieces.emplace_back(1, c);
    while (std::ssize(pieces) < kEnd) pieces.push_back(fmt::format("w{} ", pieces.size()));
    pieces.emplace_back("</s>");
    return FakeTokenizer(pieces, {kEnd});
  }();
  return made;
}

std::shared_ptr<const Constraint> constrained(const std::string& schema) {
  static const auto words = std::make_shared<TokenWords>(tokenizer(), kTinyVocab);
  return std::make_shared<Constraint>(compile_json_schema(parse_json(schema, "the schema")), words);
}

const char* const kSchemas[] = {
    R"({"type":"object"})",
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":12},
        "age":{"type":"integer","minimum":0,"maximum":130},
        "tags":{"type":"array","items":{"enum":["a","b","tags"]},"maxItems":3}},
        "required":["name","age","tags"],"additionalProperties":false})",
    R"({"type":"array","items":{"anyOf":[{"type":"boolean"},{"type":"string","maxLength":3},
        {"properties":{"e":{"type":"null"}},"required":["e"]}]},"minItems":2,"maxItems":5})",
    R"({"type":"integer"})"};

Request request_of(int64_t i, float temperature) {
  Request request = make_request(random_prompt(static_cast<uint64_t>(70 + i), 4 + 5 * i), 90);
  request.sampling.temperature = temperature;
  request.sampling.seed = static_cast<uint64_t>(i);
  request.top_logprobs = 1;
  // One of the eight is free.
  if (i != 5) request.constraint = constrained(kSchemas[i % 4]);
  return request;
}

std::vector<Answer> run(const EngineOptions& options, float temperature,
                        int64_t* preemptions = nullptr) {
  Engine engine(tiny_model(), tokenizer(), options);
  std::vector<Answer> answers(8);
  for (int64_t i = 0; i < 8; ++i)
    submit(engine, request_of(i, temperature), answers[static_cast<size_t>(i)]);
  engine.run();
  EXPECT_EQ(engine.engine_stats().kv_blocks_free, engine.engine_stats().kv_blocks);
  if (preemptions != nullptr) *preemptions += engine.engine_stats().preemptions;
  return answers;
}

// D10: with every speculator and tree, alone, in a batch and with memory taken away.
TEST(ConstrainedAnswers, AreTheSameWithEverySpeculatorD10) {
  int64_t preemptions = 0;
  for (const float temperature : {0.0f, 1.0f}) {
    const auto plain = run({.context = 160, .max_sequences = 8}, temperature);
    std::vector<std::vector<int32_t>> texts;
    int ended = 0;
    for (int64_t i = 0; i < 8; ++i) {
      const Answer& answer = plain[static_cast<size_t>(i)];
      texts.push_back(whole_text(request_of(i, temperature), answer));
      ASSERT_NE(answer.finish, FinishReason::kError) << answer.error;
      if (i == 5 || answer.finish != FinishReason::kStop) continue;
      ++ended;
      EXPECT_TRUE(Json::accept(answer.text)) << answer.text;
      EXPECT_EQ(answer.ids.back(), kEnd);
    }
    EXPECT_GE(ended, 3);
    std::vector<std::string> faults;
    const auto script = [&](int32_t right, bool judged) {
      return scripted({.texts = texts, .vocab = kTinyVocab, .right = right, .depth = 9},
                      judged ? &faults : nullptr);
    };
    // The scripted ones judge what they are shown, which begins anew when memory was taken away.
    const auto drafters = [&](bool judged) -> std::vector<std::vector<SpeculatorFactory>> {
      return {{script(64, judged)},
              {script(2, judged)},
              {script(0, judged)},
              {ngram(), recycling()},
              {draft_model(), script(3, judged)}};
    };
    for (size_t drafter = 0; drafter < drafters(true).size(); ++drafter)
      for (const char* tree : {"1", "fixed25", "chain4", "auto"})
        for (const int64_t memory : {0, 240}) {
          SCOPED_TRACE(
              fmt::format("T {} drafter {} tree {} memory {}", temperature, drafter, tree, memory));
          EngineOptions options{.context = 160, .max_sequences = 8, .kv_tokens = memory};
          options.speculators = drafters(memory == 0)[drafter];
          options.tree = TreePolicy::parse(tree);
          const auto answers = run(options, temperature, &preemptions);
          for (size_t i = 0; i < 8; ++i) ASSERT_TRUE(same_answer(answers[i], plain[i])) << i;
        }
    EXPECT_THAT(faults, IsEmpty());
  }
  EXPECT_GT(preemptions, 10);
}

// Drafts that the schema forbids cost no row.
TEST(ConstrainedAnswers, ForbiddenDraftsAreDropped) {
  const auto drafted = [](Request request, const std::shared_ptr<const Constraint>& constraint) {
    request.constraint = constraint;
    EngineOptions options{.context = 160};
    options.speculators = {
        scripted({.texts = {}, .vocab = kTinyVocab, .right = 0, .depth = 4}, nullptr)};
    options.tree = TreePolicy::parse("chain4");
    Engine engine(tiny_model(), tokenizer(), options);
    Answer answer;
    const int64_t id = submit(engine, std::move(request), answer);
    engine.run();
    return *engine.stats(id);
  };
  const Request request = request_of(1, 0.0f);
  const RequestStats free = drafted(request, nullptr);
  const RequestStats bound = drafted(request, request.constraint);
  EXPECT_GT(free.drafted, 3 * (free.target_steps - 3));
  EXPECT_LT(bound.drafted, 2 * bound.target_steps);
}

// D12: a dead end ends the request alone.
TEST(ConstrainedAnswers, ADeadEndEndsTheRequestAloneD12) {
  Engine engine(tiny_model(), tokenizer(), {.context = 160, .max_sequences = 2});
  Request stuck = request_of(0, 0.0f);
  stuck.constraint = constrained(R"({"const":"A"})");  // the vocabulary has no such letter
  const Request other = request_of(5, 0.0f);
  Answer stuck_answer;
  Answer answer;
  submit(engine, stuck, stuck_answer);
  submit(engine, other, answer);
  engine.run();
  EXPECT_EQ(stuck_answer.finish, FinishReason::kError);
  EXPECT_THAT(stuck_answer.error, HasSubstr("no token is left"));
  EXPECT_EQ(stuck_answer.text, "\"");
  EXPECT_TRUE(same_answer(answer, run_alone(tiny_model(), tokenizer(), other, {.context = 160})));
}

TEST(ConstrainedAnswers, BiasCannotForceWhatIsForbidden) {
  Request request = request_of(3, 1.0f);
  request.sampling.logit_bias = {{6, std::numeric_limits<float>::infinity()}, {kEnd, 100.0f}};
  const Answer answer = run_alone(tiny_model(), tokenizer(), request, {.context = 160});
  EXPECT_EQ(answer.finish, FinishReason::kStop);
  EXPECT_TRUE(Json::accept(answer.text)) << answer.text;
}

TEST(ConstrainedAnswers, WhatExcludesItIsRefused) {
  const Engine engine(tiny_model(), tokenizer(), {.context = 160});
  const auto refusal = [&](const Engine& by, const Request& request) -> std::string {
    try {
      by.check(request);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  Request request = request_of(0, 0.0f);
  EXPECT_EQ(refusal(engine, request), "");
  request.ignore_eos = true;
  EXPECT_THAT(refusal(engine, request), HasSubstr("ignore_eos"));
  request.ignore_eos = false;
  request.sampling.min_tokens = 1;
  EXPECT_THAT(refusal(engine, request), HasSubstr("min_tokens"));
  request.sampling.min_tokens = 0;
  const auto grammar = compile_json_schema({{"type", "null"}});
  request.constraint = std::make_shared<Constraint>(
      grammar, std::make_shared<TokenWords>(tokenizer(), kTinyVocab + 1));
  EXPECT_THAT(refusal(engine, request), HasSubstr("97 tokens"));
  const FakeTokenizer endless(numbered_pieces());
  request.constraint =
      std::make_shared<Constraint>(grammar, std::make_shared<TokenWords>(endless, kTinyVocab));
  EXPECT_THAT(refusal(engine, request), HasSubstr("no end-of-text token"));
}

}  // namespace
}  // namespace clover
