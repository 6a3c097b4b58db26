// SPDX-License-Identifier: Apache-2.0
// Ids, log-probabilities and ends are the same, bit for bit, with every speculator and every tree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/speculation_fixtures.h"

namespace clover {
namespace {

using namespace engine_testing;
using ::testing::IsEmpty;

const FakeTokenizer& tokenizer() {
  static const FakeTokenizer tokens(numbered_pieces(), {95});
  return tokens;
}

struct Sampling {
  std::string name;
  SamplingParams params;
};

std::vector<Sampling> samplings() {
  Sampling greedy{"greedy", {}};
  Sampling warm{"T 0.7", {.temperature = 0.7f}};
  Sampling hot{"T 1", {.temperature = 1.0f, .top_k = 40, .top_p = 0.95f, .min_p = 0.01f}};
  Sampling penalties{"penalties", {}};
  penalties.params.repetition_penalty = 1.3f;
  penalties.params.presence_penalty = 0.4f;
  penalties.params.frequency_penalty = 0.3f;
  penalties.params.logit_bias = {{3, 2.0f}, {7, -100.0f}};
  Sampling both = penalties;
  both.name = "penalties at T 0.7";
  both.params.temperature = 0.7f;
  both.params.min_tokens = 10;
  return {greedy, warm, hot, penalties, both};
}

Request request_of(int64_t i, const SamplingParams& sampling) {
  Request request = make_request(random_prompt(static_cast<uint64_t>(i), 5 + 7 * i), 24 + i % 3);
  request.sampling = sampling;
  request.sampling.seed = static_cast<uint64_t>(1000 + i);
  request.top_logprobs = 2;
  return request;
}

std::vector<Answer> run(const std::shared_ptr<const Model>& model, const SamplingParams& sampling,
                        int64_t sequences, const EngineOptions& options) {
  Engine engine(model, tokenizer(), options);
  std::vector<Answer> answers(static_cast<size_t>(sequences));
  for (int64_t i = 0; i < sequences; ++i)
    submit(engine, request_of(i, sampling), answers[static_cast<size_t>(i)]);
  engine.run();
  EXPECT_EQ(engine.engine_stats().kv_blocks_free, engine.engine_stats().kv_blocks);
  return answers;
}

struct Drafter {
  std::string name;
  std::vector<SpeculatorFactory> speculators;
};

std::vector<Drafter> drafters(const std::vector<std::vector<int32_t>>& texts,
                              std::vector<std::string>* faults) {
  const auto script = [&](int32_t right) {
    return scripted({.texts = texts, .vocab = kTinyVocab, .right = right, .depth = 9}, faults);
  };
  return {{"ngram", {ngram()}},
          {"recycle", {recycling()}},
          {"ngram+recycle", {ngram(), recycling()}},
          {"draft model", {draft_model()}},
          {"right", {script(64)}},
          {"right at two depths", {script(2)}},
          {"wrong", {script(0)}},
          {"clover2", {untrained("clover2", tiny_model())}},
          {"clover1", {untrained("clover1", tiny_model())}},
          {"medusa", {untrained("medusa", tiny_model())}},
          {"eagle", {untrained("eagle", tiny_model())}},
          {"all kinds",
           {untrained("clover2", tiny_model()), untrained("eagle", tiny_model()), draft_model(),
            ngram(), recycling(), script(3)}}};
}

// A1, A3, A7, A10, A11, A19, A21, D1, D3, D4, D6, D7, D9, D14, G5.
TEST(Lossless, EverySpeculatorTreeAndSamplingGivesThePlainAnswer) {
  const int64_t sequences = 8;
  const auto two_threads = load_tiny("gguf_qwen3_q4_0", 2);
  for (const Sampling& sampling : samplings()) {
    const std::vector<Answer> plain =
        run(tiny_model(), sampling.params, sequences, {.context = 96, .max_sequences = sequences});
    std::vector<std::vector<int32_t>> texts;
    for (int64_t i = 0; i < sequences; ++i)
      texts.push_back(whole_text(request_of(i, sampling.params), plain[static_cast<size_t>(i)]));
    std::vector<std::string> faults;
    for (const Drafter& drafter : drafters(texts, &faults)) {
      for (const char* tree : {"1", "4", "fixed25", "chain4", "clover1", "auto"}) {
        for (const int64_t at_once : {1, 8}) {
          SCOPED_TRACE(fmt::format("{}, {}, tree {}, {} at once", sampling.name, drafter.name, tree,
                                   at_once));
          EngineOptions options{.context = 96, .max_sequences = at_once, .prefill_rows = 20};
          options.speculators = drafter.speculators;
          options.tree = TreePolicy::parse(tree);
          // Packages belong to the model that they were opened for.
          const bool bound = drafter.name != "ngram+recycle" && drafter.name != "right";
          const auto answers =
              run(bound ? tiny_model() : two_threads, sampling.params, sequences, options);
          for (size_t i = 0; i < answers.size(); ++i)
            ASSERT_TRUE(same_answer(answers[i], plain[i])) << "request " << i;
        }
      }
    }
    EXPECT_THAT(faults, IsEmpty());
  }
}

// A8, C: the end-of-text token, a stop string, the last token and the end of the context inside an
// accepted block.
TEST(Lossless, EndsInsideABlockA8) {
  Request base = make_request(random_prompt(4, 12), 40);
  const Answer whole = run_alone(tiny_model(), tokenizer(), base, {.context = 128});
  ASSERT_EQ(whole.ids.size(), 40u);
  for (size_t end = 1; end < 14; ++end) {
    const FakeTokenizer with_eos(numbered_pieces(), {whole.ids[end]});
    Request stop = base;
    stop.stop = {fmt::format("[{}]", whole.ids[end])};
    Request length = base;
    length.max_tokens = static_cast<int64_t>(end);
    const auto context = static_cast<int64_t>(base.prompt.size() + end);
    Request full = base;
    full.max_tokens = -1;
    const std::vector<std::tuple<Request, const Tokenizer*, int64_t>> cases = {
        {base, &with_eos, 128},
        {stop, &tokenizer(), 128},
        {length, &tokenizer(), 128},
        {full, &tokenizer(), context}};
    for (const auto& [request, tokens, room] : cases) {
      const Answer plain = run_alone(tiny_model(), *tokens, request, {.context = room});
      for (const char* tree : {"1", "chain4", "chain16", "auto"}) {
        EngineOptions options{.context = room};
        std::vector<std::string> faults;
        options.speculators = {scripted(
            {.texts = {whole_text(base, whole)}, .vocab = kTinyVocab, .depth = 20}, &faults)};
        options.tree = TreePolicy::parse(tree);
        const Answer answer = run_alone(tiny_model(), *tokens, request, options);
        ASSERT_TRUE(same_answer(answer, plain)) << end << " " << tree;
        ASSERT_THAT(faults, IsEmpty());
      }
    }
  }
}

// E9: memory that ends at a block's edge, one before and one behind.
TEST(Lossless, BlocksEndAnywhereE9) {
  for (const int64_t context : {31, 32, 33, 47, 48, 49}) {
    Request request = make_request(random_prompt(8, 14), -1);
    const Answer plain = run_alone(tiny_model(), tokenizer(), request, {.context = context});
    for (const char* tree : {"fixed25", "8"}) {
      EngineOptions options{.context = context};
      options.speculators = {draft_model(), untrained("eagle", tiny_model()), ngram()};
      options.tree = TreePolicy::parse(tree);
      ASSERT_TRUE(same_answer(run_alone(tiny_model(), tokenizer(), request, options), plain))
          << context << " " << tree;
    }
  }
}

// A model with a sliding window, and one with attention biases: the window's edge lies in the tree.
TEST(Lossless, SlidingWindowAndAlibiE13) {
  for (const char* name : {"mistral", "baichuan_13b", "qwen2"}) {
    const auto model = load_tiny(name);
    Request request = make_request(random_prompt(2, 30), 40);
    request.sampling.temperature = 0.8f;
    const Answer plain = run_alone(model, tokenizer(), request, {.context = 100});
    EngineOptions options{.context = 100};
    options.speculators = {
        ngram(), recycling(),
        scripted(
            {.texts = {whole_text(request, plain)}, .vocab = kTinyVocab, .right = 3, .depth = 6},
            nullptr)};
    options.tree = TreePolicy::parse("12");
    EXPECT_TRUE(same_answer(run_alone(model, tokenizer(), request, options), plain)) << name;
  }
}

TEST(Lossless, ARequestMayForbidDrafts) {
  Request request = make_request(random_prompt(4, 12), 30);
  const Answer plain = run_alone(tiny_model(), tokenizer(), request);
  EngineOptions options{.context = 128};
  options.speculators = {
      scripted({.texts = {whole_text(request, plain)}, .vocab = kTinyVocab}, nullptr)};
  options.tree = TreePolicy::parse("chain8");
  for (const int64_t most : {0, 1, 3}) {
    Engine engine(tiny_model(), tokenizer(), options);
    Answer answer;
    request.max_drafts = most;
    const int64_t id = submit(engine, request, answer);
    engine.run();
    EXPECT_TRUE(same_answer(answer, plain));
    EXPECT_LE(engine.stats(id)->drafted, most * engine.stats(id)->target_steps);
    EXPECT_EQ(engine.stats(id)->drafted > 0, most > 0);
  }
}

}  // namespace
}  // namespace clover
