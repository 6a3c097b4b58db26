// SPDX-License-Identifier: Apache-2.0
#include "train/torch/head_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "base/error.h"

namespace clover {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kRows = 600;  // more than a chunk, not a multiple of it
constexpr int64_t kVocab = 37;
constexpr int64_t kHidden = 6;

at::Tensor noise(at::IntArrayRef size, double scale = 1.0) {
  return (at::arange(size[0] * size[1], at::kDouble) * 12.9898)
      .sin()
      .mul(43758.5453)
      .frac()
      .mul(scale)
      .reshape(size);
}

struct Problem {
  at::Tensor normed = noise({kRows, kHidden}, 3.0);
  at::Tensor head = noise({kVocab, kHidden}, 2.0);
  HeadTargets targets;

  explicit Problem(TokenLoss kind) {
    targets.kind = kind;
    for (int64_t i = 0; i < kRows; ++i) {
      targets.truth.push_back(i % 11 == 0 ? -1 : i * 7 % kVocab);
      targets.teacher_row.push_back(i * 5 % 20);
      targets.weights.push_back(i % 3 == 0 ? 0.0f : 0.25f + 0.5f * static_cast<float>(i % 4));
    }
    if (kind != TokenLoss::kText)
      targets.teacher = at::softmax(noise({20, kVocab}, 4.0), 1).to(at::kBFloat16);
  }

  // The definition, over whole matrices with the library's own gradients: [M]
  at::Tensor plain() const {
    const at::Tensor logp = at::log_softmax(at::linear(normed, head), 1);
    if (targets.kind == TokenLoss::kText) {
      const at::Tensor truth = at::tensor(targets.truth);
      return -logp.gather(1, truth.clamp_min(0).unsqueeze(1)).squeeze(1) * (truth >= 0);
    }
    const at::Tensor q =
        targets.teacher.index_select(0, at::tensor(targets.teacher_row)).to(at::kDouble);
    if (targets.kind == TokenLoss::kTarget) return -(q * logp).sum(1);
    const at::Tensor overlap = at::minimum(logp.exp(), q).sum(1);
    return targets.kind == TokenLoss::kOverlap ? 1.0 - overlap : -overlap.log();
  }
};

TEST(HeadLoss, EqualsItsDefinitionAndTheLibrarysGradients) {
  for (const TokenLoss kind :
       {TokenLoss::kText, TokenLoss::kTarget, TokenLoss::kOverlap, TokenLoss::kLogOverlap}) {
    SCOPED_TRACE(static_cast<int>(kind));
    Problem p(kind);
    p.normed.set_requires_grad(true);
    p.head.set_requires_grad(true);
    const at::Tensor weights = at::tensor(p.targets.weights).to(at::kDouble);
    const at::Tensor rows = p.plain();
    const at::Tensor total = (rows * weights).sum();
    total.backward();
    const at::Tensor want_normed = p.normed.grad().clone();
    const at::Tensor want_head = p.head.grad().clone();
    p.normed.mutable_grad().zero_();
    p.head.mutable_grad().zero_();

    const HeadLoss loss = head_loss(p.normed, p.head, p.targets);
    EXPECT_NEAR(loss.total.item<double>(), total.item<double>(), 1e-9 * kRows);
    (loss.total * 2.0).backward();
    EXPECT_TRUE(at::allclose(p.normed.grad(), 2.0 * want_normed, 1e-9, 1e-12));
    EXPECT_TRUE(at::allclose(p.head.grad(), 2.0 * want_head, 1e-9, 1e-12));
    for (int64_t i = 0; i < kRows; ++i)
      ASSERT_NEAR(loss.loss[static_cast<size_t>(i)], rows[i].item<double>(), 1e-5) << "row " << i;
  }
}

TEST(HeadLoss, RowsWithoutWeightOrTruthGetNoGradient) {
  Problem p(TokenLoss::kText);
  p.normed.set_requires_grad(true);
  head_loss(p.normed, p.head, p.targets).total.backward();
  const at::Tensor size = p.normed.grad().abs().sum(1);
  for (int64_t i = 0; i < kRows; ++i) {
    const bool counts = i % 3 != 0 && i % 11 != 0;
    EXPECT_EQ(size[i].item<double>() > 0, counts) << "row " << i;
  }
  EXPECT_FALSE(p.head.grad().defined());
}

TEST(HeadLoss, CountsWhatIsAmongTheLikeliest) {
  // Logits of a row: 6 5 4 3 2 1 0.
  const at::Tensor normed = at::ones({5, 1}, at::kFloat);
  const at::Tensor head = at::arange(6, -1, -1, at::kFloat).reshape({7, 1});
  const HeadTargets targets = {
      .truth = {0, 1, 4, 5, -1}, .teacher = {}, .teacher_row = {}, .weights = {1, 1, 1, 1, 1}};
  const HeadLoss loss = head_loss(normed, head, targets);
  EXPECT_THAT(loss.top1, ElementsAre(1, 0, 0, 0, 0));
  EXPECT_THAT(loss.top5, ElementsAre(1, 1, 1, 0, 0));
  EXPECT_EQ(loss.loss[4], 0.0f);
  EXPECT_FALSE(loss.total.requires_grad());
}

TEST(HeadLoss, SurvivesLogitsFarApart) {
  const at::Tensor normed = at::full({1, 1}, 1000.0f).set_requires_grad(true);
  const at::Tensor head = at::tensor({1.0f, -1.0f}).reshape({2, 1});
  const HeadLoss loss =
      head_loss(normed, head, {.truth = {1}, .teacher = {}, .teacher_row = {}, .weights = {1}});
  EXPECT_TRUE(std::isfinite(loss.loss[0]));
  loss.total.backward();
  EXPECT_NEAR(normed.grad().item<float>(), 2.0f, 1e-5f);
}

TEST(HeadLoss, MakesTheTargetsDistribution) {
  const at::Tensor normed = noise({300, kHidden}).to(at::kFloat);
  const at::Tensor head = noise({kVocab, kHidden}).to(at::kFloat);
  const at::Tensor p = teacher_probabilities(normed, head);
  EXPECT_EQ(p.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::allclose(p.to(at::kFloat), at::softmax(at::linear(normed, head), 1), 0.01, 1e-6));
}

TEST(HeadLoss, RefusesTargetsThatDoNotFit) {
  const auto message = [](const std::function<void(Problem&)>& break_it, TokenLoss kind) {
    Problem p(kind);
    break_it(p);
    try {
      head_loss(p.normed, p.head, p.targets);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message([](Problem& p) { p.targets.truth.pop_back(); }, TokenLoss::kText),
              HasSubstr("differ in size"));
  EXPECT_THAT(message([](Problem& p) { p.targets.weights.clear(); }, TokenLoss::kText),
              HasSubstr("differ in size"));
  EXPECT_THAT(message([](Problem& p) { p.targets.truth[3] = kVocab; }, TokenLoss::kText),
              HasSubstr("draft id 37 is outside"));
  EXPECT_THAT(message([](Problem& p) { p.targets.teacher_row[3] = 20; }, TokenLoss::kTarget),
              HasSubstr("no row 20"));
  EXPECT_THAT(message([](Problem& p) { p.targets.teacher = at::Tensor(); }, TokenLoss::kOverlap),
              HasSubstr("not the head's"));
}

}  // namespace
}  // namespace clover
