// SPDX-License-Identifier: Apache-2.0
#include "train/torch/objective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "backend/torch_backend.h"
#include "speculation/speculators/init.h"
#include "train/torch/toy_language.h"

namespace clover {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ToyObjective : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new ScratchFolder();
    train_testing::write_toy_model(folder_->path());
    checkpoint_ = open_checkpoint(folder_->path()).release();
  }
  static void TearDownTestSuite() {
    delete checkpoint_;
    delete folder_;
  }

  std::unique_ptr<Trainable> make(const std::string& type) {
    InitOptions options;
    options.type = type;
    options.heads = 3;
    options.draft_vocab = 96;
    options.weights = DType::kF32;
    return std::make_unique<Trainable>(
        init_package(*checkpoint_, options), *checkpoint_,
        Model::load_frame(*checkpoint_, make_torch_backend({.threads = 1})));
  }
  // One sequence with random features.
  static TrainingBatch text(std::vector<int32_t> tokens, std::vector<uint8_t> loss) {
    TrainingBatch batch;
    batch.lengths = {std::ssize(tokens)};
    std::vector<float> features(tokens.size() * 64);
    for (size_t i = 0; i < features.size(); ++i)
      features[i] = static_cast<float>(random_uniform(7, i)) - 0.5f;
    batch.features = at::tensor(features).reshape({std::ssize(tokens), 64});
    batch.tokens = std::move(tokens);
    batch.loss = std::move(loss);
    return batch;
  }
  static Recipe hard() {
    Recipe recipe;
    recipe.token_loss = TokenLoss::kText;
    return recipe;
  }
  // Which steps (heads) of the package got any gradient.
  static std::vector<int> touched(const Trainable& speculator) {
    std::vector<int> steps;
    for (int step = 0; step < 3; ++step) {
      double sum = 0;
      for (const NamedParameter& p : speculator.parameters())
        if (p.name.starts_with(fmt::format("steps.{}.", step)) && p.value.grad().defined())
          sum += p.value.grad().abs().sum().item<double>();
      if (sum > 0) steps.push_back(step);
    }
    return steps;
  }

  static ScratchFolder* folder_;
  static Checkpoint* checkpoint_;
};
ScratchFolder* ToyObjective::folder_ = nullptr;
Checkpoint* ToyObjective::checkpoint_ = nullptr;

// H2, by hand. Tokens a b c; the answer is b c. Head 0 at a has seen the feature of a and the token
// b, and predicts c; head 1 would predict what comes after c. b itself is nobody's to predict: it
// is drawn by the pass that reads the prompt.
TEST_F(ToyObjective, three_tokens_train_one_position_of_one_head) {
  const auto speculator = make("medusa");  // separate heads
  const Recipe recipe = hard();
  const Objective objective(*speculator, recipe);
  const TrainingBatch batch = text({5, 6, 7}, {0, 1, 1});
  EXPECT_THAT(count_rows(batch, 3), ElementsAre(1, 0, 0));
  const std::vector<HeadRows> rows = speculator->forward(batch);
  EXPECT_THAT(rows[0].source, ElementsAre(0));
  EXPECT_THAT(rows[0].target, ElementsAre(2));
  EXPECT_THAT(rows[1].source, IsEmpty());
  const std::vector<HeadSums> sums = objective.run(batch, {1, 0, 0}, true);
  EXPECT_EQ(sums[0].counted, 1);
  EXPECT_EQ(sums[1].rows, 0);
  EXPECT_THAT(touched(*speculator), ElementsAre(0));
}

// The last token of a text is trained, and nothing behind it.
TEST_F(ToyObjective, four_tokens_train_two_positions_of_head_0_and_one_of_head_1) {
  const auto speculator = make("medusa");
  const Recipe recipe = hard();
  const TrainingBatch batch = text({5, 6, 7, 8}, {0, 0, 1, 1});
  EXPECT_THAT(count_rows(batch, 3), ElementsAre(2, 1, 0));
  const std::vector<HeadRows> rows = speculator->forward(batch);
  EXPECT_THAT(rows[0].source, ElementsAre(0, 1));
  EXPECT_THAT(rows[0].target, ElementsAre(2, 3));
  EXPECT_THAT(rows[1].source, ElementsAre(0));
  EXPECT_THAT(rows[1].target, ElementsAre(3));
  EXPECT_THAT(rows[2].source, IsEmpty());
  Objective(*speculator, recipe).run(batch, {2, 1, 0}, true);
  EXPECT_THAT(touched(*speculator), ElementsAre(0, 1));
}

TEST_F(ToyObjective, tokens_of_the_prompt_are_never_trained) {
  const auto speculator = make("medusa");
  const Recipe recipe = hard();
  const TrainingBatch batch = text({5, 6, 7, 8}, {1, 1, 0, 0});
  EXPECT_THAT(count_rows(batch, 3), ElementsAre(0, 0, 0));
  Objective(*speculator, recipe).run(batch, {0, 0, 0}, true);
  EXPECT_THAT(touched(*speculator), IsEmpty());
}

TEST_F(ToyObjective, texts_of_a_batch_do_not_reach_into_each_other) {
  TrainingBatch batch = text({5, 6, 7, 8, 9}, {1, 1, 1, 1, 1});
  batch.lengths = {2, 3};
  EXPECT_THAT(count_rows(batch, 3), ElementsAre(1, 0, 0));
  const auto speculator = make("medusa");
  const std::vector<HeadRows> rows = speculator->forward(batch);
  EXPECT_THAT(rows[0].source, ElementsAre(2));
  EXPECT_THAT(rows[0].target, ElementsAre(4));
}

// only_right: a row counts for head j while the best tokens of all heads before it are the text's.
TEST_F(ToyObjective, positions_behind_a_wrong_draft_do_not_count) {
  const auto speculator = make("clover2");
  Recipe recipe = hard();
  const TrainingBatch batch = text({5, 6, 7, 8, 9, 10, 11, 12}, {0, 0, 1, 1, 1, 1, 1, 1});
  const std::vector<int64_t> rows = count_rows(batch, 3);
  const std::vector<HeadSums> all = Objective(*speculator, recipe).run(batch, rows, false);
  recipe.only_right = true;
  const std::vector<HeadSums> some = Objective(*speculator, recipe).run(batch, rows, false);
  EXPECT_EQ(some[0].counted, all[0].counted);
  EXPECT_LE(some[1].counted, some[0].top1);
  EXPECT_LE(some[2].counted, std::min(some[1].counted, some[1].top1));
  EXPECT_EQ(all[1].counted, rows[1]);
}

// The parts of a step add up to the step: the ground for accumulation and for several processes.
TEST_F(ToyObjective, gradients_of_parts_add_up_to_those_of_the_whole) {
  const auto speculator = make("clover2");
  Recipe recipe;
  recipe.feature_weight = 3;
  TrainingBatch whole = text({5, 6, 7, 8, 9, 10, 11, 12}, {0, 1, 1, 1, 0, 1, 1, 1});
  whole.lengths = {4, 4};
  const std::vector<int64_t> rows = count_rows(whole, 3);
  const Objective objective(*speculator, recipe);
  objective.run(whole, rows, true);
  std::map<std::string, at::Tensor> expected;
  for (const NamedParameter& p : speculator->parameters()) {
    if (p.value.grad().defined()) expected[p.name] = p.value.grad().clone();
    at::Tensor value = p.value;
    value.mutable_grad() = at::Tensor();
  }
  for (size_t part = 0; part < 2; ++part) {
    TrainingBatch half;
    half.lengths = {4};
    const auto at = static_cast<int64_t>(4 * part);
    half.tokens.assign(whole.tokens.begin() + at, whole.tokens.begin() + at + 4);
    half.loss.assign(whole.loss.begin() + at, whole.loss.begin() + at + 4);
    half.features = whole.features.slice(0, at, at + 4);
    objective.run(half, rows, true);
  }
  EXPECT_GT(expected.size(), 10u);
  for (const NamedParameter& p : speculator->parameters()) {
    if (!expected.contains(p.name)) continue;
    const double difference = (p.value.grad() - expected[p.name]).abs().max().item<double>();
    EXPECT_LE(difference, 1e-5 * (1 + expected[p.name].abs().max().item<double>())) << p.name;
  }
}

}  // namespace
}  // namespace clover
