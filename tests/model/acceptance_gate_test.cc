// SPDX-License-Identifier: Apache-2.0
// G11, I10: acceptance on fixed prompts does not sink unnoticed from one change to the next. Trees
// are of a fixed size and decoding is greedy, so the counts are the same on every run whatever the
// machine's speed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "engine/speculation_fixtures.h"
#include "measure/decode_bench.h"
#include "tokenizer/tokenizer.h"

namespace clover {
namespace {

using namespace engine_testing;

constexpr double kLeast = 0.98;  // of the stored value
const char* const kStored = CLOVER_SOURCE_DIR "/tests/data/acceptance.json";

// Whether the measured acceptance is too far below the stored one. What could not be measured has
// fallen: a drafter that is not asked at all must not pass.
bool has_fallen(double measured, double stored) { return !(measured >= kLeast * stored); }

std::vector<Question> fixed_questions() {
  auto questions = first_of_each_category(read_questions(CLOVER_SOURCE_DIR "/bench/questions"), 2);
  // Minutes of prompt for seconds of answer.
  std::erase_if(questions, [](const Question& q) { return q.category == "long_context"; });
  return first_turns(std::move(questions), 1);
}

Json measure() {
  const auto checkpoint =
      open_checkpoint(CLOVER_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf");
  const auto tokenizer = load_tokenizer(*checkpoint);
  const std::shared_ptr<const Model> model = Model::load(*checkpoint, make_cpu_backend({}));
  DecodeBenchOptions options;
  const TreePolicy eight = TreePolicy::parse("8");
  options.methods = {{"none"},
                     {"ngram@8", {ngram()}, eight},
                     {"recycle@8", {recycling()}, eight},
                     {"ngram+recycle@8", {ngram(), recycling()}, eight}};
  options.repeats = 1;
  options.max_tokens = 64;
  options.engine.context = 2048;
  return bench_decode(model, *tokenizer, fixed_questions(), options, {})["results"];
}

TEST(AcceptanceGate, ComparesAsPromised) {
  EXPECT_FALSE(has_fallen(1.0, 1.0));
  EXPECT_FALSE(has_fallen(0.981, 1.0));
  EXPECT_FALSE(has_fallen(1.5, 1.0));
  EXPECT_TRUE(has_fallen(0.979, 1.0));
  EXPECT_TRUE(has_fallen(0.0, 1.0));
  EXPECT_TRUE(has_fallen(std::nan(""), 1.0));
}

TEST(AcceptanceGate, AcceptanceHasNotFallen) {
  const Json stored = parse_json(read_file(kStored, 1 << 20), kStored);
  std::map<std::string, Json> all;
  std::string plain_hash;
  for (const Json& row : measure()) {
    if (row.at("category") != "all") continue;
    const std::string method = row.at("method");
    EXPECT_TRUE(row.at("same_text_as_none").get<bool>()) << method;
    if (method == "none") plain_hash = row.at("ids_hash");
    all[method] = row;
  }
  std::printf("ids of %s (stored: %s)\n", plain_hash.c_str(),
              stored.at("ids_hash").get<std::string>().c_str());
  for (const auto& [method, value] : stored.at("extra_tokens_per_step").items()) {
    ASSERT_TRUE(all.contains(method)) << method << " was not measured";
    const double now = all[method].at("extra_tokens_per_step");
    std::printf("extra tokens per step, %-16s %.4f (stored: %.4f)\n", method.c_str(), now,
                value.get<double>());
    EXPECT_FALSE(has_fallen(now, value.get<double>()))
        << method << " accepts fewer drafts than before; if that is meant, change " << kStored;
  }
}

}  // namespace
}  // namespace clover
