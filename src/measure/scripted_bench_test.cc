// SPDX-License-Identifier: Apache-2.0
// The statistics of bench decode and eval on engines whose answers and drafts are scripted, so that
// every count is known beforehand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/speculation_fixtures.h"
#include "measure/decode_bench.h"
#include "measure/draft_eval.h"

namespace clover {
namespace {

using namespace engine_testing;
using ::testing::ElementsAre;

// Reads "[5][7] 9" as 5, 7, 9: what it writes it can read.
class NumberTokenizer : public FakeTokenizer {
 public:
  using FakeTokenizer::FakeTokenizer;
  std::vector<TokenId> encode(std::span<const TextSpan> text, const EncodeOptions&) const override {
    std::vector<TokenId> ids;
    for (const TextSpan& span : text)
      for (size_t i = 0; i < span.text.size();) {
        size_t end = i;
        while (end < span.text.size() && span.text[end] >= '0' && span.text[end] <= '9') ++end;
        if (end > i) ids.push_back(std::stoi(std::string(span.text.substr(i, end - i))));
        i = end + 1;
      }
    return ids;
  }
};

constexpr int64_t kTokens = 17;
const std::vector<std::string> kTurns = {"3 1 4 1 5", "9 2 6"};

// The prompt and its answer of kTokens tokens, one text a turn.
std::vector<std::vector<int32_t>> texts(const NumberTokenizer& tokenizer) {
  std::vector<std::vector<int32_t>> all;
  const PromptWriter writer(tokenizer);
  std::vector<std::string> answers;
  for (size_t turn = 0; turn < kTurns.size(); ++turn) {
    const std::vector<TokenId> prompt = writer.write(kTurns, answers);
    const Answer answer = run_alone(tiny_model(), tokenizer, make_request(prompt, kTokens));
    all.emplace_back(prompt.begin(), prompt.end());
    all.back().insert(all.back().end(), answer.ids.begin(), answer.ids.end());
    answers.push_back(answer.text);
  }
  return all;
}

ScriptedSpeculator::Script script(const NumberTokenizer& tokenizer, int32_t right, int32_t depth) {
  return {texts(tokenizer), kTinyVocab, right, depth, 0.9f};
}

DecodeBenchOptions bench_options() {
  DecodeBenchOptions options;
  options.repeats = 1;
  options.max_tokens = kTokens;
  options.engine.context = 128;
  return options;
}

Json row_of(const Json& result, const std::string& method, const std::string& category = "all") {
  for (const Json& row : result["results"])
    if (row["method"] == method && row["category"] == category) return row;
  ADD_FAILURE() << "no row of " << method;
  return {};
}

// Three drafts, all right: the pass over the prompt gives the first token, four passes the other
// 16, four each. 5 steps with 12 accepted drafts.
TEST(ScriptedBench, SeveralTokensInAStep) {
  const NumberTokenizer tokenizer(numbered_pieces());
  DecodeBenchOptions options = bench_options();
  options.methods = {
      {"none"}, {"right", {scripted(script(tokenizer, 3, 3), nullptr)}, TreePolicy::parse("3")}};
  const Json result = bench_decode(tiny_model(), tokenizer, {{"a", {kTurns[0]}}}, options, {});
  const Json row = row_of(result, "right");
  EXPECT_DOUBLE_EQ(row["extra_tokens_per_step"], 12.0 / 5);
  EXPECT_DOUBLE_EQ(row["drafted_per_step"], 12.0 / 5);
  EXPECT_TRUE(row["same_text_as_none"].get<bool>());
  EXPECT_DOUBLE_EQ(row_of(result, "none")["extra_tokens_per_step"], 0);
  EXPECT_DOUBLE_EQ(row_of(result, "none")["drafted_per_step"], 0);
  EXPECT_EQ(row["ids_hash"], row_of(result, "none")["ids_hash"]);
}

// Drafts that are never right: 17 steps of one token. The step over the prompt has none, and none
// fit behind the last token.
TEST(ScriptedBench, DraftsThatAreWrong) {
  const NumberTokenizer tokenizer(numbered_pieces());
  DecodeBenchOptions options = bench_options();
  options.methods = {
      {"none"}, {"wrong", {scripted(script(tokenizer, 0, 1), nullptr)}, TreePolicy::parse("1")}};
  const Json result = bench_decode(tiny_model(), tokenizer, {{"a", {kTurns[0]}}}, options, {});
  const Json row = row_of(result, "wrong");
  EXPECT_DOUBLE_EQ(row["extra_tokens_per_step"], 0);
  EXPECT_DOUBLE_EQ(row["drafted_per_step"], 15.0 / 17);
  EXPECT_TRUE(row["same_text_as_none"].get<bool>());
}

// The text ends inside a block: what was drafted behind the end counts as drafted, not as accepted.
TEST(ScriptedBench, AnEndInsideABlock) {
  const NumberTokenizer counting(numbered_pieces());
  const std::vector<std::vector<int32_t>> text = texts(counting);
  const TokenId end = text[0][5 + 3];  // fourth of the answer
  int64_t first = 0;
  while (text[0][static_cast<size_t>(5 + first)] != end) ++first;
  const NumberTokenizer tokenizer(numbered_pieces(), {end});
  DecodeBenchOptions options = bench_options();
  options.methods = {
      {"none"},
      {"right", {scripted({text, kTinyVocab, 16, 16, 0.9f}, nullptr)}, TreePolicy::parse("8")}};
  const Json result = bench_decode(tiny_model(), tokenizer, {{"a", {kTurns[0]}}}, options, {});
  const Json row = row_of(result, "right");
  EXPECT_TRUE(row["same_text_as_none"].get<bool>());
  // Two steps at most: the prompt's, and one whose walk stops at the end.
  const double steps = first == 0 ? 1 : 2;
  EXPECT_DOUBLE_EQ(row["drafted_per_step"], first == 0 ? 0 : 8 / steps);
  EXPECT_LE(row["extra_tokens_per_step"].get<double>(), static_cast<double>(first) / steps);
  EXPECT_GE(row["extra_tokens_per_step"].get<double>(), static_cast<double>(first - 1) / steps);
}

// An answer of one token comes from the pass over the prompt: there is no step that only decodes.
TEST(ScriptedBench, TheFirstTokenAlone) {
  const NumberTokenizer counting(numbered_pieces());
  const NumberTokenizer tokenizer(numbered_pieces(), {texts(counting)[0][5]});
  DecodeBenchOptions options = bench_options();
  options.methods = {{"none"}};
  const Json result = bench_decode(tiny_model(), tokenizer, {{"a", {kTurns[0]}}}, options, {});
  const Json row = row_of(result, "none");
  EXPECT_DOUBLE_EQ(row["tokens_per_second"]["median"], 0);
  EXPECT_TRUE(row["tpot_ms"].is_null());
  EXPECT_FALSE(row["ttft_ms"].is_null());
  EXPECT_TRUE(row["step_ms"]["verify"].is_null());
}

// The second turn is read behind the first and its answer: the speculator, which knows exactly that
// text, is right in it as well.
TEST(ScriptedBench, LaterTurnsFollowTheAnswers) {
  const NumberTokenizer tokenizer(numbered_pieces());
  DecodeBenchOptions options = bench_options();
  options.methods = {
      {"none"}, {"right", {scripted(script(tokenizer, 3, 3), nullptr)}, TreePolicy::parse("3")}};
  const std::vector<Question> questions = {{"a", kTurns}, {"a", {kTurns[0]}}};
  options.batches = {2};
  const Json result = bench_decode(tiny_model(), tokenizer, questions, options, {});
  EXPECT_EQ(result["options"]["turns"], 3);
  EXPECT_EQ(result["options"]["questions"], 2);
  const Json row = row_of(result, "right");
  EXPECT_DOUBLE_EQ(row["extra_tokens_per_step"], 36.0 / 15);
  EXPECT_TRUE(row["same_text_as_none"].get<bool>());
}

TEST(ScriptedBench, EvalCountsDepthsRecallAndRanks) {
  const NumberTokenizer tokenizer(numbered_pieces());
  DraftEvalOptions options;
  options.nodes = {3};
  options.depths = {1, 2};
  options.max_tokens = kTokens;
  options.engine.context = 128;
  // Right at the first two depths, wrong at the third: 1 + ceil(16 / 3) steps.
  options.engine.speculators = {scripted(script(tokenizer, 2, 3), nullptr)};
  const Json result =
      eval_drafts(tiny_model(), tokenizer, {Question{"a", {kTurns[0]}}}, options, {});
  ASSERT_EQ(result["trees"].size(), 3u);
  const Json& tree = result["trees"][0];
  // Steps: prompt, five of three tokens (15), one of the last token, which has no draft.
  EXPECT_TRUE(tree["depth"].is_null());
  EXPECT_DOUBLE_EQ(tree["extra_tokens_per_step"], 10.0 / 7);
  EXPECT_DOUBLE_EQ(tree["per_depth"][0], 1);
  EXPECT_DOUBLE_EQ(tree["per_depth"][1], 1);
  EXPECT_DOUBLE_EQ(tree["per_depth"][2], 0);
  EXPECT_DOUBLE_EQ(tree["recall"][0], 5.0 / 7);
  EXPECT_DOUBLE_EQ(tree["recall"][1], 5.0 / 7);
  EXPECT_DOUBLE_EQ(tree["recall"][2], 0);
  // One draft a step: the prompt, eight of two tokens.
  EXPECT_EQ(result["trees"][1]["depth"], 1);
  EXPECT_DOUBLE_EQ(result["trees"][1]["extra_tokens_per_step"], 8.0 / 9);
  EXPECT_EQ(result["trees"][2]["depth"], 2);
  EXPECT_DOUBLE_EQ(result["trees"][2]["extra_tokens_per_step"], 10.0 / 7);
  // The drawn token was the only candidate at depths 1 and 2, and none at depth 3.
  ASSERT_EQ(result["ranks"].size(), 3u);
  for (int depth = 1; depth <= 3; ++depth) {
    const Json& ranks = result["ranks"][static_cast<size_t>(depth - 1)];
    EXPECT_EQ(ranks["depth"], depth);
    EXPECT_EQ(ranks["parent_rank"], 1);
    EXPECT_EQ(ranks["asked"], 5);
    EXPECT_EQ(ranks["at_rank"][0], depth < 3 ? 5 : 0);
  }
}

}  // namespace
}  // namespace clover
