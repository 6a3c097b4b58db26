// SPDX-License-Identifier: Apache-2.0
#include "train/torch/trainable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "backend/torch_backend.h"
#include "speculation/speculators/trained_cases.h"
#include "speculation/speculators/trained_reference.h"
#include "train/torch/training_rows.h"

namespace clover {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_support::error_of;
using testing_support::Folder;
using testing_support::random_tokens;
using testing_support::Reference;
using testing_support::Script;
using testing_support::shaken_package;
using testing_support::Target;
using testing_support::trained_cases;
using testing_support::TrainedCase;

// A target for the native engine, and what a trainer has of it.
struct TrainingTarget {
  Target native;
  std::shared_ptr<const Model> frame;

  explicit TrainingTarget(const std::string& name, DType type = DType::kF32)
      : native(name),
        frame(Model::load_frame(*native.checkpoint,
                                make_torch_backend({.threads = 1, .type = type}))) {}
  Trainable trainable(const Package& package) const { return {package, *native.checkpoint, frame}; }
};

// Whole scripts with the native engine's features, every token to be predicted.
TrainingBatch batch_of(const std::vector<const Script*>& scripts) {
  TrainingBatch batch;
  std::vector<at::Tensor> features;
  for (const Script* script : scripts) {
    const auto count = static_cast<int64_t>(script->tokens.size());
    batch.lengths.push_back(count);
    batch.tokens.insert(batch.tokens.end(), script->tokens.begin(), script->tokens.end());
    features.push_back(at::from_blob(script->hidden.data(), {count, script->hidden.cols()},
                                     {script->hidden.stride(), 1}, at::TensorOptions(at::kFloat))
                           .clone());
  }
  batch.loss.assign(batch.tokens.size(), 1);
  batch.features = at::cat(features);
  return batch;
}

class TrainedForward : public ::testing::TestWithParam<TrainedCase> {};

// H1, H4: teacher-forced heads say what the serving formulas say, position by position.
TEST_P(TrainedForward, EqualsTheFormulas) {
  const TrainedCase& test = GetParam();
  const TrainingTarget target(test.model);
  const Package package =
      shaken_package(target.native, test.options, test.options.type == "eagle" ? 0.02f : 0.1f);
  const Trainable trainable = target.trainable(package);
  const Script first(target.native, random_tokens(5, 21, 64), 3);
  const Script second(target.native, random_tokens(6, 12, 64), 3);
  Reference reference(package, target.native);
  const at::NoGradGuard no_grad;
  const std::vector<HeadRows> heads = trainable.forward(batch_of({&first, &second}));
  ASSERT_EQ(static_cast<int64_t>(heads.size()), trainable.heads());
  for (size_t j = 0; j < heads.size(); ++j) {
    const HeadRows& head = heads[j];
    const size_t expected = (21 - 2 - j) + (12 - 2 - j);
    ASSERT_EQ(head.source.size(), expected);
    const at::Tensor p = at::softmax(at::linear(head.normed, trainable.head()), 1);
    for (size_t m = 0; m < expected; m += 4) {
      ASSERT_EQ(head.target[m], head.source[m] + 2 + static_cast<int64_t>(j));
      const bool of_first = head.source[m] < 21;
      const Script& script = of_first ? first : second;
      const int64_t known = head.source[m] - (of_first ? 0 : 21) + 2;
      const auto drafts = std::span(script.tokens).subspan(static_cast<size_t>(known)).first(j);
      const Reference::Row want = reference.chain(script, known, drafts).back();
      const at::Tensor row = p[static_cast<int64_t>(m)].contiguous();
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(row.data_ptr<float>()[i], want[i], 2e-4 * want[i] + 1e-6)
            << "head " << j << " row " << m << " id " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Family, TrainedForward, ::testing::ValuesIn(trained_cases()),
                         [](const auto& test) { return test.param.name; });

// H2: which tokens each head predicts, from which rows, and what has to be computed for it.
TEST(TrainingRows, PredictsExactlyTheTokensWithLoss) {
  const TrainingBatch batch = {.lengths = {6, 2, 3},
                               .tokens = {10, 11, 12, 13, 14, 15, 20, 21, 30, 31, 32},
                               .loss = {0, 0, 0, 1, 0, 1, 1, 1, 1, 1, 1},
                               .features = {}};
  const TrainingRows rows(batch, 3, 64, 0);
  // The first sequence's rows 0 … 3 and the last one's row 0; two tokens predict nothing.
  EXPECT_THAT(rows.token(), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(rows.needed(0), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(rows.predicting(0), ElementsAre(1, 3, 4));  // tokens 13, 15, 32
  EXPECT_THAT(rows.needed(1), ElementsAre(0, 1, 2));
  EXPECT_THAT(rows.predicting(1), ElementsAre(0, 2));  // tokens 13, 15
  EXPECT_THAT(rows.needed(2), ElementsAre(1));
  EXPECT_THAT(rows.predicting(2), ElementsAre(0));  // token 15
  EXPECT_THAT(rows.kept(1), ElementsAre(0, 1, 2));
  EXPECT_THAT(rows.kept(2), ElementsAre(1));
  EXPECT_THAT(rows.tokens(rows.needed(1), 2), ElementsAre(12, 13, 14));
}

TEST(TrainingRows, ThreeTokens) {
  const TrainingBatch batch = {
      .lengths = {3}, .tokens = {1, 2, 3}, .loss = {1, 1, 1}, .features = {}};
  const TrainingRows rows(batch, 2, 64, 0);
  EXPECT_THAT(rows.needed(0), ElementsAre(0));
  EXPECT_THAT(rows.predicting(0), ElementsAre(0));
  EXPECT_THAT(rows.needed(1), IsEmpty());
}

class Trained : public ::testing::Test {
 protected:
  static Package small(const Target& target, const std::string& type) {
    return shaken_package(
        target, {.type = type, .heads = 3, .draft_vocab = 50, .seed = 3, .weights = DType::kF32},
        0.02f);
  }
  static at::Tensor total(const std::vector<HeadRows>& heads, const at::Tensor& head) {
    at::Tensor sum = at::zeros({}, head.options());
    for (const HeadRows& h : heads) {
      if (h.normed.defined())
        sum = sum - at::log_softmax(at::linear(h.normed, head), 1).select(1, 7).sum();
    }
    return sum;
  }
};

// H2: gradients come from exactly the rows that lead to a token with loss.
TEST_F(Trained, GradientsComeFromTheRowsThatPredict) {
  const TrainingTarget target("llama3");
  const Script script(target.native, random_tokens(5, 9, 64), 3);
  const Trainable medusa = target.trainable(small(target.native, "medusa"));
  for (int64_t u = 0; u < 9; ++u) {
    TrainingBatch batch = batch_of({&script});
    batch.loss.assign(9, 0);
    batch.loss[static_cast<size_t>(u)] = 1;
    batch.features.set_requires_grad(true);
    const std::vector<HeadRows> heads = medusa.forward(batch);
    const at::Tensor sum = total(heads, medusa.head());
    if (u < 2) {
      EXPECT_FALSE(sum.requires_grad()) << u;
      continue;
    }
    sum.backward();
    for (int64_t t = 0; t < 9; ++t) {
      const bool leads = t <= u - 2 && t >= u - 4;  // heads 0, 1, 2
      EXPECT_EQ(batch.features.grad()[t].abs().sum().item<float>() > 0, leads) << u << " " << t;
    }
  }
}

TEST_F(Trained, EveryParameterIsNamedAsInThePackageAndLearns) {
  const TrainingTarget target("qwen2");
  const Script script(target.native, random_tokens(5, 30, 64), 3);
  for (const std::string type : {"clover2", "clover1", "medusa", "eagle"}) {
    SCOPED_TRACE(type);
    const Package package = small(target.native, type);
    const Trainable trainable = target.trainable(package);
    total(trainable.forward(batch_of({&script})), trainable.head()).backward();
    ASSERT_EQ(trainable.parameters().size(), package.tensors.size());
    for (size_t i = 0; i < package.tensors.size(); ++i) {
      const NamedParameter& parameter = trainable.parameters()[i];
      EXPECT_EQ(parameter.name, package.tensors[i].name);
      EXPECT_EQ(parameter.value.sizes().vec(), package.tensors[i].shape);
      // Medusa's layout has a norm for embeddings, which its heads do not look at.
      if (type == "medusa" && parameter.name == "embedding_norm.weight") continue;
      ASSERT_TRUE(parameter.value.grad().defined()) << parameter.name;
      EXPECT_GT(parameter.value.grad().abs().max().item<float>(), 0.0f) << parameter.name;
    }
  }
}

// H8: the whole forward pass of every kind against finite differences.
TEST_F(Trained, GradientsEqualFiniteDifferences) {
  constexpr double kStep = 1e-5;
  const TrainingTarget target("llama3", DType::kF64);
  const Script first(target.native, random_tokens(5, 14, 64), 3);
  const Script second(target.native, random_tokens(6, 9, 64), 3);
  const TrainingBatch batch = batch_of({&first, &second});
  for (const std::string type : {"clover2", "clover1", "eagle"}) {
    const Trainable trainable = target.trainable(small(target.native, type));
    const auto loss = [&] { return total(trainable.forward(batch), trainable.head()); };
    loss().backward();
    const at::NoGradGuard no_grad;
    for (const NamedParameter& parameter : trainable.parameters()) {
      double* values = parameter.value.data_ptr<double>();
      const at::Tensor gradient = parameter.value.grad().contiguous();
      for (int64_t i = 0; i < parameter.value.numel(); i += parameter.value.numel() / 3 + 1) {
        const double before = values[i];
        values[i] = before + kStep;
        const double above = loss().item<double>();
        values[i] = before - kStep;
        const double below = loss().item<double>();
        values[i] = before;
        const double want = (above - below) / (2 * kStep);
        ASSERT_NEAR(gradient.data_ptr<double>()[i], want, 1e-5 * std::max(1.0, std::abs(want)))
            << type << " " << parameter.name << " value " << i;
      }
    }
  }
}

// H12: what training exports is what it holds, map of the draft vocabulary included.
TEST_F(Trained, ExportsWhatItHolds) {
  const TrainingTarget target("llama3");
  Package package = small(target.native, "clover2");
  package.d2t = {3, 9, 60, 2, 17};
  package.config.draft_vocab = 5;
  const Trainable trainable = target.trainable(package);
  EXPECT_EQ(trainable.head().size(0), 5);
  EXPECT_EQ(trainable.draft_ids()[60], 2);
  EXPECT_EQ(trainable.draft_ids()[61], -1);
  {
    const at::NoGradGuard no_grad;
    for (const NamedParameter& parameter : trainable.parameters()) parameter.value.mul_(0.5);
  }
  const Folder folder;
  write_package(folder / "p", trainable.package());
  const Package read = read_package(folder / "p", *target.native.checkpoint);
  EXPECT_EQ(read.d2t, package.d2t);
  ASSERT_EQ(read.tensors.size(), package.tensors.size());
  for (size_t i = 0; i < read.tensors.size(); ++i) {
    EXPECT_EQ(read.tensors[i].name, package.tensors[i].name);
    EXPECT_EQ(read.tensors[i].shape, package.tensors[i].shape);
    for (size_t k = 0; k < read.tensors[i].values.size(); ++k)
      ASSERT_EQ(read.tensors[i].values[k], 0.5f * package.tensors[i].values[k]);
  }
}

TEST_F(Trained, AnOwnHeadIsTrained) {
  const TrainingTarget target("llama3");
  Package package = small(target.native, "medusa");
  const int64_t hidden = target.frame->config().hidden;
  package.tensors.push_back({"lm_head.weight",
                             {50, hidden},
                             std::vector<float>(static_cast<size_t>(50 * hidden), 0.25f)});
  const Trainable trainable = target.trainable(package);
  EXPECT_EQ(trainable.parameters().back().name, "lm_head.weight");
  EXPECT_TRUE(trainable.head().requires_grad());
  EXPECT_EQ(trainable.head()[3][4].item<float>(), 0.25f);
  const Folder folder;
  write_package(folder / "p", trainable.package());
  EXPECT_EQ(read_package(folder / "p", *target.native.checkpoint).tensors.back().values.size(),
            static_cast<size_t>(50 * hidden));
}

TEST_F(Trained, NothingToPredictIsNoRows) {
  const TrainingTarget target("llama3");
  const Trainable trainable = target.trainable(small(target.native, "eagle"));
  const Script script(target.native, random_tokens(5, 9, 64), 3);
  TrainingBatch batch = batch_of({&script});
  batch.loss.assign(9, 0);
  for (const HeadRows& head : trainable.forward(batch)) {
    EXPECT_THAT(head.source, IsEmpty());
    EXPECT_FALSE(head.normed.defined());
  }
}

TEST_F(Trained, RefusesBatchesThatDoNotFit) {
  const TrainingTarget target("llama3");
  const Trainable trainable = target.trainable(small(target.native, "clover2"));
  const Script script(target.native, random_tokens(5, 9, 64), 3);
  const auto message = [&](const std::function<void(TrainingBatch&)>& break_it) {
    TrainingBatch batch = batch_of({&script});
    break_it(batch);
    return error_of([&] { trainable.forward(batch); });
  };
  EXPECT_THAT(message([](TrainingBatch& b) { b.lengths = {8}; }), HasSubstr("8 tokens together"));
  EXPECT_THAT(message([](TrainingBatch& b) { b.lengths = {9, 0}; }), HasSubstr("of 0 tokens"));
  EXPECT_THAT(message([](TrainingBatch& b) { b.loss.pop_back(); }), HasSubstr("8 marks"));
  EXPECT_THAT(message([](TrainingBatch& b) { b.tokens[4] = 1 << 30; }), HasSubstr("outside"));
  EXPECT_THAT(message([](TrainingBatch& b) { b.features = b.features.narrow(0, 0, 8); }),
              HasSubstr("features of 9 tokens by"));
  EXPECT_THAT(message([](TrainingBatch& b) { b.features = at::Tensor(); }),
              HasSubstr("features of 9"));
}

TEST_F(Trained, AFrameRunsNoTarget) {
  const TrainingTarget target("llama3");
  const auto kv = target.frame->backend().make_kv_store(target.frame->kv_shape(1, DType::kF32));
  const std::vector<int32_t> blocks = {0};
  Batch batch;
  batch.tokens = {1};
  batch.parents = {-1};
  batch.wants_logits = {1};
  batch.sequences.push_back({blocks, 0, 0, 1});
  EXPECT_THAT(error_of([&] { target.frame->forward(batch, *kv); }),
              HasSubstr("loaded without its layers"));
}

}  // namespace
}  // namespace clover
