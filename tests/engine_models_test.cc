// SPDX-License-Identifier: Apache-2.0
// The engine over every kind of model: full and sliding-window attention, ALiBi, query norms,
// quantised and plain weights; each on every instruction set.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine_fixtures.h"

namespace clover {
namespace {

using namespace engine_testing;

const FakeTokenizer& tokenizer() {
  static const FakeTokenizer made(numbered_pieces());
  return made;
}

std::vector<Request> some_requests() {
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 4; ++i) {
    Request request = make_request(random_prompt(i, 2 + 11 * static_cast<int64_t>(i)),
                                   24 - 4 * static_cast<int64_t>(i));
    request.sampling.temperature = i % 2 == 0 ? 0.0f : 0.8f;
    request.sampling.seed = i;
    request.top_logprobs = 2;
    requests.push_back(request);
  }
  return requests;
}

std::vector<Answer> run_together(const std::shared_ptr<const Model>& model, int64_t rows) {
  const std::vector<Request> requests = some_requests();
  std::vector<Answer> answers(requests.size());
  Engine engine(model, tokenizer(), {.context = 96, .max_sequences = 3, .prefill_rows = rows});
  for (size_t i = 0; i < requests.size(); ++i) submit(engine, requests[i], answers[i]);
  engine.run();
  return answers;
}

class EngineModels : public ::testing::TestWithParam<std::string> {};

// A10, D14, E3: alone, together, in chunks, on one or two threads, with any instruction set.
TEST_P(EngineModels, AnswersDependOnTheRequestAlone) {
  const auto first = load_tiny(GetParam());
  const std::vector<Request> requests = some_requests();
  std::vector<Answer> alone;
  for (const Request& request : requests) {
    alone.push_back(run_alone(first, tokenizer(), request, {.context = 96}));
    EXPECT_EQ(alone.back().ids, ids_of(reference_draws(*first, request)));
  }
  for (const std::string& isa : cpu_isas()) {
    for (const int threads : {1, 2}) {
      SCOPED_TRACE(isa + ", threads: " + std::to_string(threads));
      const auto model = load_tiny(GetParam(), threads, isa);
      for (const int64_t rows : {5, 64}) {
        const std::vector<Answer> together = run_together(model, rows);
        for (size_t i = 0; i < alone.size(); ++i)
          EXPECT_TRUE(same_answer(together[i], alone[i])) << "request " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, EngineModels,
                         ::testing::Values("llama2", "mistral", "baichuan_7b", "baichuan_13b",
                                           "gguf_qwen2", "gguf_linear", "gguf_llama_q8_0",
                                           "gguf_llama_q4_k", "gguf_qwen3_q4_0"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace clover
