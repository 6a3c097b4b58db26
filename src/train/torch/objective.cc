// SPDX-License-Identifier: Apache-2.0
#include "train/torch/objective.h"

#include <algorithm>

namespace clover {
namespace {

int64_t sum(const std::vector<uint8_t>& flags) {
  int64_t count = 0;
  for (const uint8_t flag : flags) count += flag;
  return count;
}

at::Tensor index_tensor(const std::vector<int64_t>& values, const at::Tensor& like) {
  return at::tensor(values, at::TensorOptions().dtype(at::kLong)).to(like.device());
}

}  // namespace

std::vector<int64_t> count_rows(const TrainingBatch& batch, int64_t heads) {
  std::vector<int64_t> rows(static_cast<size_t>(heads));
  int64_t begin = 0;
  for (const int64_t length : batch.lengths) {
    for (int64_t u = 2; u < length; ++u) {
      if (batch.loss[static_cast<size_t>(begin + u)] == 0) continue;
      // Head j predicts token u from row u - 2 - j.
      for (int64_t j = 0; j < heads && u - 2 - j >= 0; ++j) ++rows[static_cast<size_t>(j)];
    }
    begin += length;
  }
  return rows;
}

Objective::Teacher Objective::teach(const TrainingBatch& batch,
                                    const std::vector<HeadRows>& heads) const {
  const at::NoGradGuard no_grad;
  Teacher teacher;
  teacher.place.assign(batch.tokens.size(), -1);
  std::vector<int64_t> before;
  for (const HeadRows& head : heads) {
    for (const int64_t target : head.target) {
      int64_t& place = teacher.place[static_cast<size_t>(target)];
      if (place >= 0) continue;
      place = std::ssize(before);
      before.push_back(target - 1);
    }
  }
  const bool soft = recipe_.token_loss != TokenLoss::kText;
  if (before.empty() || (!soft && recipe_.feature_weight == 0)) return teacher;
  const at::Tensor rows = index_tensor(before, batch.features);
  teacher.normed = speculator_.target_normed(batch.features.index_select(0, rows));
  if (soft) teacher.probabilities = teacher_probabilities(teacher.normed, speculator_.head());
  return teacher;
}

Objective::Rows Objective::choose_rows(const TrainingBatch& batch, const HeadRows& head,
                                       const Teacher& teacher,
                                       const std::vector<uint8_t>& right) const {
  Rows rows;
  rows.targets.kind = recipe_.token_loss;
  rows.targets.teacher = teacher.probabilities;
  rows.counted.assign(head.target.size(), 1);
  for (size_t m = 0; m < head.target.size(); ++m) {
    const auto u = static_cast<size_t>(head.target[m]);
    rows.targets.teacher_row.push_back(teacher.place[u]);
    rows.targets.truth.push_back(speculator_.draft_ids()[static_cast<size_t>(batch.tokens[u])]);
    if (recipe_.only_right) rows.counted[m] = right[static_cast<size_t>(head.source[m])];
    if (recipe_.token_loss == TokenLoss::kText && rows.targets.truth.back() < 0)
      rows.counted[m] = 0;
  }
  return rows;
}

at::Tensor Objective::feature_loss(const HeadRows& head, const Teacher& teacher,
                                   const Rows& rows) const {
  const at::Tensor wanted =
      teacher.normed.index_select(0, index_tensor(rows.targets.teacher_row, teacher.normed));
  const at::Tensor distance =
      at::smooth_l1_loss(head.normed, wanted.to(head.normed.scalar_type()), at::Reduction::None)
          .mean(1);
  const std::vector<float> counted(rows.counted.begin(), rows.counted.end());
  return (distance * at::tensor(counted).to(distance.device())).sum();
}

std::vector<HeadSums> Objective::run(const TrainingBatch& batch,
                                     const std::vector<int64_t>& step_rows, bool learn) const {
  const at::AutoGradMode grad(learn);
  const std::vector<HeadRows> heads = speculator_.forward(batch);
  const Teacher teacher = teach(batch, heads);
  std::vector<HeadSums> sums(heads.size());
  std::vector<uint8_t> right(batch.tokens.size(), 1);  // of a row: whether no head was wrong yet
  at::Tensor total;
  const auto add = [&](const at::Tensor& loss) { total = total.defined() ? total + loss : loss; };
  double weight = 1;
  for (size_t j = 0; j < heads.size(); ++j, weight *= recipe_.decay) {
    const HeadRows& head = heads[j];
    HeadSums& s = sums[j];
    s.rows = std::ssize(head.target);
    if (s.rows == 0) continue;
    Rows rows = choose_rows(batch, head, teacher, right);
    s.counted = sum(rows.counted);
    const double share = weight * static_cast<double>(s.rows) / static_cast<double>(step_rows[j]) /
                         static_cast<double>(std::max<int64_t>(s.counted, 1));
    rows.targets.weights.reserve(rows.counted.size());
    for (const uint8_t counted : rows.counted)
      rows.targets.weights.push_back(counted != 0 ? static_cast<float>(share * recipe_.token_weight)
                                                  : 0.0f);
    const HeadLoss loss = head_loss(head.normed, speculator_.head(), rows.targets);
    for (size_t m = 0; m < rows.counted.size(); ++m) {
      if (rows.counted[m] != 0) s.loss += static_cast<double>(loss.loss[m]);
      if (loss.top1[m] == 0) right[static_cast<size_t>(head.source[m])] = 0;
    }
    s.top1 = sum(loss.top1);
    s.top5 = sum(loss.top5);
    if (recipe_.token_weight > 0) add(loss.total);
    if (recipe_.feature_weight == 0) continue;
    const at::Tensor feature = feature_loss(head, teacher, rows);
    s.feature = feature.item<double>();
    add(feature * (share * recipe_.feature_weight));
  }
  if (learn && total.defined()) total.backward();
  return sums;
}

}  // namespace clover
