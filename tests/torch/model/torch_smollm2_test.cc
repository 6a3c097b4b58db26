// SPDX-License-Identifier: Apache-2.0
// The default model over libtorch, and what training computes of it, against the native engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "../../model_fixtures.h"
#include "backend/torch/torch_values.h"
#include "backend/torch_backend.h"
#include "speculation/speculators/trained_for_tests.h"
#include "tokenizer/tokenizer.h"
#include "train/torch/trainable.h"

namespace clover {
namespace {

using testing_support::draft_chain;
using testing_support::drafting;
using testing_support::EditedCheckpoint;
using testing_support::Folder;
using testing_support::observe;
using testing_support::PassRows;
using testing_support::relative_error;
using testing_support::run_prompt;
using testing_support::Script;
using testing_support::Stored;
using testing_support::Target;

constexpr size_t kTokens = 256;

const Checkpoint& file() {
  static const std::unique_ptr<Checkpoint> opened =
      open_checkpoint(CLOVER_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf");
  return *opened;
}

// The same model with the weights that its 4-bit blocks stand for.
EditedCheckpoint& decoded() {
  static EditedCheckpoint checkpoint = [] {
    EditedCheckpoint edited(file());
    edited.to_float32();
    return edited;
  }();
  return checkpoint;
}

std::vector<int32_t> tokens() {
  std::string text;
  for (int i = 1; text.size() < 4000; ++i)
    text += fmt::format(
        "Question {}: why does bread rise? Yeast eats the sugar in the dough and breathes out gas, "
        "which {} bubbles cannot leave. ",
        i, i * i);
  const std::vector<TextSpan> spans = {
      {"<|im_start|>user\n", true}, {text, false}, {"<|im_end|>\n", true}};
  std::vector<int32_t> ids = load_tokenizer(file())->encode(spans, {});
  ids.resize(kTokens);
  return ids;
}

int64_t top(std::span<const float> row) {
  return std::max_element(row.begin(), row.end()) - row.begin();
}

// Thirty layers chain some ten times the products of a tiny model (model_parity_test.cc).
TEST(TorchSmolLm2, HiddenStatesAndLogitsEqualTheNativeBackends) {
  const std::vector<int32_t> ids = tokens();
  const auto torch = Model::load(decoded(), make_torch_backend({.threads = 2}));
  const PassRows got = run_prompt(*torch, ids, DType::kF32, 256);
  {
    const auto native = Model::load(decoded(), make_cpu_backend({.threads = 2, .isa = "auto"}));
    const PassRows want = run_prompt(*native, ids, DType::kF32, 256);
    double hidden = 0.0, logits = 0.0;
    for (int64_t r = 0; r < std::ssize(ids); ++r) {
      hidden = std::max(hidden, relative_error(got.hidden_row(r), want.hidden_row(r)));
      logits = std::max(logits, relative_error(got.logits_row(r), want.logits_row(r)));
    }
    RecordProperty("hidden", fmt::format("{:.2e}", hidden));
    RecordProperty("logits", fmt::format("{:.2e}", logits));
    EXPECT_LT(hidden, 1e-4);
    EXPECT_LT(logits, 1e-4);
  }
  // With 4-bit weights the native backend rounds activations to 8 bits.
  const auto quantised = Model::load(file(), make_cpu_backend({.threads = 2, .isa = "auto"}));
  const PassRows narrow = run_prompt(*quantised, ids, DType::kF16, 256);
  double mean = 0.0;
  int same = 0;
  for (int64_t r = 0; r < std::ssize(ids); ++r) {
    mean += relative_error(narrow.logits_row(r), got.logits_row(r)) / kTokens;
    same += top(narrow.logits_row(r)) == top(got.logits_row(r)) ? 1 : 0;
  }
  RecordProperty("quantised", fmt::format("{:.3f} {}", mean, same));
  EXPECT_LT(mean, 0.1);
  EXPECT_GT(same, 240);
}

// H1, H4, H5: the trainer's heads on 256 tokens are what the engine drafts from the exported
// package, and features pass between them unchanged.
TEST(TorchSmolLm2, TrainingForwardEqualsDrafting) {
  Target target(std::unique_ptr<Checkpoint>(new EditedCheckpoint(decoded())));
  const auto frame = Model::load_frame(decoded(), make_torch_backend({.threads = 2}));
  const Script script(target, tokens(), 0);
  for (const std::string type : {"clover2", "medusa", "eagle"}) {
    SCOPED_TRACE(type);
    const Package package = testing_support::shaken_package(
        target, {.type = type, .draft_vocab = 2000, .seed = 9, .weights = DType::kF32}, 0.005f);
    const Trainable trainable(package, decoded(), frame);
    TrainingBatch batch;
    batch.tokens = script.tokens;
    batch.lengths = {kTokens};
    batch.loss.assign(kTokens, 1);
    batch.features = at::from_blob(script.hidden.data(), {kTokens, script.hidden.cols()},
                                   at::TensorOptions(at::kFloat));
    const at::NoGradGuard no_grad;
    const std::vector<HeadRows> heads = trainable.forward(batch);
    const auto speculator =
        testing_support::open_written(target, trainable.package())({target.model, 64, DType::kF32});
    speculator->begin(1);
    int64_t stored = 0;
    for (const int64_t known : {40, 131, 250}) {
      const Stored part{1, &script, stored, known - 1 - stored};
      observe(*speculator, target, {&part, 1});
      stored = known - 1;
      const std::vector<DraftSequence> sequences = {drafting(1, script, known)};
      speculator->start(sequences);
      const auto drafts =
          std::span(script.tokens).subspan(static_cast<size_t>(known)).first(heads.size() - 1);
      const auto candidates =
          draft_chain(*speculator, 0, script.tokens[static_cast<size_t>(stored)], drafts, 20);
      for (size_t j = 0; j < heads.size(); ++j) {
        // Head j at row t = known - 2 predicts the token behind `known + j` tokens.
        const auto row = std::find(heads[j].source.begin(), heads[j].source.end(), known - 2) -
                         heads[j].source.begin();
        const at::Tensor p =
            at::softmax(at::linear(heads[j].normed.narrow(0, row, 1), trainable.head()), 1);
        ASSERT_FALSE(candidates[j].empty());
        for (const Candidate& candidate : candidates[j]) {
          const float want = std::clamp(
              p[0][trainable.draft_ids()[static_cast<size_t>(candidate.token)]].item<float>(),
              1e-4f, 0.999f);
          ASSERT_NEAR(candidate.probability, want, 2e-3f * want)
              << "known " << known << " head " << j << " token " << candidate.token;
        }
      }
    }
  }
}

}  // namespace
}  // namespace clover
