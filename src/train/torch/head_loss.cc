// SPDX-License-Identifier: Apache-2.0
#include "train/torch/head_loss.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

#include "backend/torch/torch_values.h"
#include "base/error.h"

namespace clover {
namespace {

constexpr int64_t kChunkRows = 256;  // enough for fast products; their logits take 8 MB
constexpr double kLeast = 1e-30;     // below which a probability is not divided by

at::Tensor product(const at::Tensor& x, const at::Tensor& w) {
  return at::linear(x.to(w.scalar_type()), w).to(x.scalar_type());
}

void check(const at::Tensor& normed, const at::Tensor& head, const HeadTargets& t) {
  const auto rows = static_cast<size_t>(normed.size(0));
  const bool soft = t.kind != TokenLoss::kText;
  if (normed.size(1) != head.size(1) || t.truth.size() != rows || t.weights.size() != rows ||
      (soft && t.teacher_row.size() != rows))
    fail(ErrorCode::kInvalidArgument, "the rows of a head and their targets differ in size");
  if (soft && (!t.teacher.defined() || t.teacher.size(1) != head.size(0)))
    fail(ErrorCode::kInvalidArgument, "the teacher's vocabulary is not the head's");
  for (size_t i = 0; i < rows; ++i) {
    if (t.truth[i] < -1 || t.truth[i] >= head.size(0))
      fail(ErrorCode::kInvalidArgument, "draft id {} is outside the draft vocabulary of {}",
           t.truth[i], head.size(0));
    if (soft && (t.teacher_row[i] < 0 || t.teacher_row[i] >= t.teacher.size(0)))
      fail(ErrorCode::kInvalidArgument, "the teacher has no row {}", t.teacher_row[i]);
  }
}

// Works through chunks of rows, in an order in which those without weight come last.
class LossPass {
 public:
  LossPass(const at::Tensor& normed, const at::Tensor& head, const HeadTargets& targets)
      : normed_(normed.detach()), head_(head.detach()), targets_(targets) {
    const auto rows = static_cast<size_t>(normed.size(0));
    out_.loss.assign(rows, 0.0f);
    out_.top1.assign(rows, 0);
    out_.top5.assign(rows, 0);
  }

  HeadLoss run(bool learn, bool learn_head) {
    if (learn) normed_grad_ = at::zeros_like(normed_);
    if (learn_head) head_grad_ = at::zeros_like(head_);
    std::vector<int64_t> order(out_.loss.size());
    std::iota(order.begin(), order.end(), 0);
    const auto weighted = std::stable_partition(order.begin(), order.end(),
                                                [&](int64_t row) { return weight(row) != 0.0f; });
    const std::span<const int64_t> all(order);
    const auto count = static_cast<size_t>(weighted - order.begin());
    chunks(all.first(count), learn || learn_head);
    chunks(all.subspan(count), false);
    return std::move(out_);
  }
  double total() const { return total_; }
  const at::Tensor& normed_grad() const { return normed_grad_; }
  const at::Tensor& head_grad() const { return head_grad_; }

 private:
  struct Chunk {
    at::Tensor rows;     // [c] in the batch
    at::Tensor x;        // [c, D]
    at::Tensor logits;   // [c, V]
    at::Tensor p;        // [c, V]
    at::Tensor truth;    // [c, 1], 0 where there is none
    at::Tensor known;    // [c, 1] 1 where there is one
    at::Tensor weights;  // [c, 1]
  };

  bool soft() const { return targets_.kind != TokenLoss::kText; }
  // Rows whose loss does not exist have no weight either.
  float weight(int64_t row) const {
    const auto i = static_cast<size_t>(row);
    return !soft() && targets_.truth[i] < 0 ? 0.0f : targets_.weights[i];
  }

  at::Tensor column(std::span<const int64_t> values) const {
    return at::tensor(at::ArrayRef<int64_t>(values.data(), values.size()), at::kLong)
        .to(normed_.device())
        .unsqueeze(1);
  }

  void chunks(std::span<const int64_t> rows, bool with_gradient) {
    for (size_t first = 0; first < rows.size(); first += kChunkRows)
      chunk(rows.subspan(first, std::min<size_t>(kChunkRows, rows.size() - first)), with_gradient);
  }

  Chunk open(std::span<const int64_t> rows) const {
    std::vector<int64_t> truth;
    std::vector<double> known, weights;
    for (const int64_t row : rows) {
      const int64_t id = targets_.truth[static_cast<size_t>(row)];
      truth.push_back(std::max<int64_t>(id, 0));
      known.push_back(id < 0 ? 0.0 : 1.0);
      weights.push_back(static_cast<double>(weight(row)));
    }
    Chunk c;
    c.rows = column(rows).squeeze(1);
    c.x = normed_.index_select(0, c.rows);
    c.logits = product(c.x, head_);
    c.p = at::softmax(c.logits, 1);
    c.truth = column(truth);
    c.known = at::tensor(known).to(normed_.options()).unsqueeze(1);
    c.weights = at::tensor(weights).to(normed_.options()).unsqueeze(1);
    return c;
  }

  void chunk(std::span<const int64_t> rows, bool with_gradient) {
    Chunk c = open(rows);
    // How many tokens are likelier than the truth.
    const at::Tensor rank = (c.logits > c.logits.gather(1, c.truth)).sum(1, true).to(at::kCPU);
    at::Tensor gradient;  // of the loss in the logits, made in place of p
    const at::Tensor loss = soft() ? against_target(c, rows, gradient) : against_text(c, gradient);
    report(rows, loss, rank);
    total_ += (loss * c.weights).sum().item<double>();
    if (!with_gradient) return;
    gradient.mul_(c.weights);
    const at::Tensor narrow = gradient.to(head_.scalar_type());
    if (normed_grad_.defined())
      normed_grad_.index_copy_(0, c.rows, at::mm(narrow, head_).to(normed_.scalar_type()));
    if (head_grad_.defined()) head_grad_.addmm_(narrow.t(), c.x.to(head_.scalar_type()));
  }

  at::Tensor against_text(const Chunk& c, at::Tensor& gradient) const {
    at::Tensor loss = -at::log(c.p.gather(1, c.truth).clamp_min(kLeast)) * c.known;
    gradient = c.p.scatter_add_(1, c.truth, -c.known);
    return loss;
  }

  at::Tensor against_target(const Chunk& c, std::span<const int64_t> rows,
                            at::Tensor& gradient) const {
    std::vector<int64_t> teacher_rows;
    for (const int64_t row : rows)
      teacher_rows.push_back(targets_.teacher_row[static_cast<size_t>(row)]);
    const at::Tensor q =
        targets_.teacher.index_select(0, column(teacher_rows).squeeze(1)).to(normed_.scalar_type());
    if (targets_.kind == TokenLoss::kTarget) {
      // log p = logit - log(sum(exp)), which the likeliest token tells without another pass of exp.
      const at::Tensor mass = q.sum(1, true);
      const at::Tensor lse = c.logits.amax(1, true) - at::log(c.p.amax(1, true));
      at::Tensor loss = mass * lse - (q * c.logits).sum(1, true);
      gradient = c.p.mul_(mass).sub_(q);
      return loss;
    }
    const at::Tensor overlap = at::minimum(c.p, q).sum(1, true);
    // d(overlap)/dp is 1 where p is the smaller one; through the softmax:
    const at::Tensor smaller = (c.p < q).to(c.p.scalar_type());
    const at::Tensor through = c.p * ((c.p * smaller).sum(1, true) - smaller);
    if (targets_.kind == TokenLoss::kOverlap) {
      gradient = through;
      return 1.0 - overlap;
    }
    const at::Tensor positive = overlap.clamp_min(kLeast);
    gradient = through / positive;
    return -at::log(positive);
  }

  void report(std::span<const int64_t> rows, const at::Tensor& loss, const at::Tensor& rank) {
    const at::Tensor losses = loss.to(at::kCPU, at::kFloat).contiguous();
    const at::Tensor ranks = rank.contiguous();
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto row = static_cast<size_t>(rows[i]);
      out_.loss[row] = losses.data_ptr<float>()[i];
      if (targets_.truth[row] < 0) continue;
      out_.top1[row] = ranks.data_ptr<int64_t>()[i] < 1;
      out_.top5[row] = ranks.data_ptr<int64_t>()[i] < 5;
    }
  }

  at::Tensor normed_;
  at::Tensor head_;
  const HeadTargets& targets_;
  at::Tensor normed_grad_;
  at::Tensor head_grad_;
  double total_ = 0.0;
  HeadLoss out_;
};

// Zero, with the given gradient in `input`.
at::Tensor slope(const at::Tensor& input, const at::Tensor& gradient) {
  const at::Tensor sum = (input * gradient.to(input.scalar_type())).sum();
  return sum - sum.detach();
}

}  // namespace

HeadLoss head_loss(const at::Tensor& normed, const at::Tensor& head, const HeadTargets& targets) {
  check(normed, head, targets);
  return with_torch("the loss of a head", [&] {
    const bool learn = at::GradMode::is_enabled() && normed.requires_grad();
    const bool learn_head = at::GradMode::is_enabled() && head.requires_grad();
    LossPass pass(normed, head, targets);
    HeadLoss out;
    {
      const at::NoGradGuard no_grad;
      out = pass.run(learn, learn_head);
    }
    out.total = at::full({}, pass.total(), normed.options());
    if (learn) out.total = out.total + slope(normed, pass.normed_grad());
    if (learn_head) out.total = out.total + slope(head, pass.head_grad());
    return out;
  });
}

at::Tensor teacher_probabilities(const at::Tensor& normed, const at::Tensor& head) {
  return with_torch("the target's distribution", [&] {
    const at::NoGradGuard no_grad;
    at::Tensor out =
        at::empty({normed.size(0), head.size(0)}, normed.options().dtype(at::kBFloat16));
    for (int64_t first = 0; first < normed.size(0); first += kChunkRows) {
      const int64_t count = std::min(kChunkRows, normed.size(0) - first);
      out.narrow(0, first, count)
          .copy_(at::softmax(product(normed.narrow(0, first, count), head), 1));
    }
    return out;
  });
}

}  // namespace clover
