// SPDX-License-Identifier: Apache-2.0
// Models and speculators over libtorch against the native backend: each is the other's reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "../model_fixtures.h"
#include "backend/torch_backend.h"
#include "speculation/speculators/trained_cases.h"
#include "speculation/speculators/trained_for_tests.h"

namespace clover {
namespace {

using testing_support::add_chain;
using testing_support::add_sequence;
using testing_support::backend_for;
using testing_support::Candidates;
using testing_support::descending_blocks;
using testing_support::draft_chain;
using testing_support::drafting;
using testing_support::EditedCheckpoint;
using testing_support::Expected;
using testing_support::host_of;
using testing_support::observe;
using testing_support::open_tiny;
using testing_support::open_written;
using testing_support::PassRows;
using testing_support::random_tokens;
using testing_support::read_expected;
using testing_support::relative_error;
using testing_support::run_pass;
using testing_support::run_prompt;
using testing_support::Script;
using testing_support::shaken_package;
using testing_support::Stored;
using testing_support::Target;
using testing_support::trained_cases;
using testing_support::TrainedCase;

// Relative errors of a row as in model_parity_test.cc: both sides add float32 in another order, or
// round keys and values to float16.
constexpr double kFloatTolerance = 5e-5;
constexpr double kHalfKvTolerance = 4e-3;

const std::vector<std::string>& tiny_models() {
  static const std::vector<std::string> names = {
      "llama2",          "llama3",         "llama_linear",  "llama_yarn",      "llama_head80",
      "llama_head96",    "llama_head256",  "mistral",       "qwen2",           "qwen3",
      "baichuan_7b",     "baichuan2_7b",   "baichuan_13b",  "baichuan2_13b",   "gguf_llama3",
      "gguf_linear",     "gguf_qwen2",     "gguf_baichuan", "gguf_llama_q8_0", "gguf_qwen3_q4_0",
      "gguf_llama_q4_1", "gguf_llama_q4_k"};
  return names;
}

void expect_same_rows(const PassRows& a, const PassRows& b, double tolerance) {
  ASSERT_EQ(a.hidden.size(), b.hidden.size());
  ASSERT_EQ(a.logits.size(), b.logits.size());
  const int64_t rows = static_cast<int64_t>(a.hidden.size()) / a.hidden_size;
  for (int64_t r = 0; r < rows; ++r) {
    ASSERT_LT(relative_error(a.hidden_row(r), b.hidden_row(r)), tolerance) << "row " << r;
    ASSERT_LT(relative_error(a.logits_row(r), b.logits_row(r)), tolerance) << "row " << r;
  }
}

class TorchParity : public ::testing::TestWithParam<std::string> {
 protected:
  TorchParity() : file_(open_tiny(GetParam())), decoded_(*file_) {
    // Quantised weights would have the native backend round its activations to 8 bits.
    decoded_.to_float32();
    torch_ = Model::load(decoded_, make_torch_backend({.threads = 1}));
    native_ = Model::load(decoded_, backend_for("auto"));
  }

  std::unique_ptr<Checkpoint> file_;
  EditedCheckpoint decoded_;
  std::shared_ptr<const Model> torch_;
  std::shared_ptr<const Model> native_;
};

TEST_P(TorchParity, PromptsInChunksGiveTheSameHiddenStatesAndLogits) {
  const Expected e = read_expected(GetParam());
  for (const int64_t chunk : {512, 37})
    expect_same_rows(run_prompt(*torch_, e.tokens, DType::kF32, chunk),
                     run_prompt(*native_, e.tokens, DType::kF32, 512), kFloatTolerance);
  expect_same_rows(run_prompt(*torch_, e.tokens, DType::kF16, 512),
                   run_prompt(*native_, e.tokens, DType::kF16, 512), kHalfKvTolerance);
}

TEST_P(TorchParity, TreesBesidePromptsGiveTheSame) {
  const std::vector<int32_t> prompt = random_tokens(1, 21, 64);
  const std::vector<int32_t> tree = random_tokens(2, 7, 64);
  const std::vector<int32_t> parents = {-1, 0, 0, 1, 2, 2, 5};
  const std::vector<int32_t> first = descending_blocks(0, 3);
  const std::vector<int32_t> second = descending_blocks(3, 3);
  const auto run = [&](const Model& model) {
    const auto kv = model.backend().make_kv_store(model.kv_shape(6, DType::kF32));
    Batch one;
    add_chain(one, first, 0, prompt);
    run_pass(model, *kv, one);
    Batch two;
    add_sequence(two, first, 21, tree, parents);
    add_chain(two, second, 0, prompt);
    return run_pass(model, *kv, two);
  };
  expect_same_rows(run(*torch_), run(*native_), kFloatTolerance);
}

INSTANTIATE_TEST_SUITE_P(Tiny, TorchParity, ::testing::ValuesIn(tiny_models()),
                         [](const auto& test) { return test.param; });

// H4, H5: features, head inputs and drafts of every kind of speculator.
class TorchDrafts : public ::testing::TestWithParam<TrainedCase> {};

TEST_P(TorchDrafts, EqualTheNativeBackends) {
  const TrainedCase& test = GetParam();
  const Target native(test.model);
  Target torch(test.model);
  torch.model = Model::load(*torch.checkpoint, make_torch_backend({.threads = 1}));
  const Package package =
      shaken_package(native, test.options, test.options.type == "eagle" ? 0.02f : 0.1f);
  const auto probabilities = [&](const Target& target) {
    const auto speculator = open_written(target, package)(host_of(target));
    const Script script(target, random_tokens(5, 40, 64), 3);
    speculator->begin(1);
    const Stored part{1, &script, 0, 29};
    observe(*speculator, target, {&part, 1});
    const std::vector<DraftSequence> sequences = {drafting(1, script, 30)};
    speculator->start(sequences);
    const int64_t depth = std::min<int64_t>(speculator->max_depth() - 1, 6);
    const Candidates drafted =
        draft_chain(*speculator, 0, script.tokens[29], random_tokens(8, depth, 64), 1000);
    std::vector<std::map<int32_t, float>> all;
    for (const std::vector<Candidate>& candidates : drafted) {
      all.emplace_back();
      for (const Candidate& candidate : candidates)
        all.back()[candidate.token] = candidate.probability;
    }
    return all;
  };
  const auto got = probabilities(torch);
  const auto want = probabilities(native);
  ASSERT_EQ(got.size(), want.size());
  for (size_t d = 0; d < got.size(); ++d) {
    ASSERT_EQ(got[d].size(), want[d].size());
    for (const auto& [token, p] : want[d]) {
      ASSERT_TRUE(got[d].contains(token));
      ASSERT_NEAR(got[d].at(token), p, 5e-4f * p + 1e-6f) << "depth " << d << " token " << token;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Family, TorchDrafts, ::testing::ValuesIn(trained_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace clover
