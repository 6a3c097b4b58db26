// SPDX-License-Identifier: Apache-2.0
// Trained speculators inside the engine: they propose, the text stays the target's own.
#include <gtest/gtest.h>

#include "engine/engine_fixtures.h"
#include "speculation/speculators/trained_for_tests.h"

namespace clover {
namespace {

using namespace engine_testing;
using testing_support::Target;

const Target& tiny() {
  static const Target target("gguf_qwen3_q4_0");
  return target;
}

Request sampled(uint64_t seed, float temperature) {
  Request request = make_request(random_prompt(seed, 5 + static_cast<int64_t>(seed % 30)), 40);
  request.sampling.temperature = temperature;
  request.sampling.seed = seed;
  request.top_logprobs = 2;
  return request;
}

std::vector<Answer> answers(const EngineOptions& options, float temperature, int requests) {
  const FakeTokenizer tokenizer(numbered_pieces());
  Engine engine(tiny().model, tokenizer, options);
  std::vector<Answer> all(static_cast<size_t>(requests));
  for (int i = 0; i < requests; ++i)
    submit(engine, sampled(static_cast<uint64_t>(i) + 1, temperature), all[static_cast<size_t>(i)]);
  engine.run();
  return all;
}

// F14, E9 and invariant 2: any package, any tree, any temperature, alone and together.
TEST(TrainedSpeculators, TextAndLogprobsAreThoseWithoutSpeculation) {
  for (const float temperature : {0.0f, 1.0f}) {
    EngineOptions plain;
    plain.context = 96;
    plain.max_sequences = 3;
    const std::vector<Answer> want = answers(plain, temperature, 5);
    for (const char* type : {"clover2", "clover1", "medusa", "combo-rb", "combo-ab", "eagle"}) {
      const SpeculatorFactory factory = testing_support::open_written(
          tiny(), init_package(*tiny().checkpoint, {.type = type, .draft_vocab = 80, .seed = 2}));
      for (const char* tree : {"1", "4", "chain5", "fixed25", "auto"}) {
        EngineOptions options = plain;
        options.speculators = {factory};
        options.tree = TreePolicy::parse(tree);
        const std::vector<Answer> got = answers(options, temperature, 5);
        for (size_t i = 0; i < want.size(); ++i)
          EXPECT_TRUE(same_answer(got[i], want[i])) << type << ", tree " << tree << ", " << i;
      }
    }
  }
}

}  // namespace
}  // namespace clover
