// SPDX-License-Identifier: Apache-2.0
#include "train/torch/head_sums.h"

#include <algorithm>

namespace clover {
namespace {

constexpr size_t kValues = 6;  // of a head

}  // namespace

HeadSums& HeadSums::operator+=(const HeadSums& other) {
  rows += other.rows;
  counted += other.counted;
  loss += other.loss;
  feature += other.feature;
  top1 += other.top1;
  top5 += other.top5;
  return *this;
}

std::vector<double> values_of(const std::vector<HeadSums>& sums) {
  std::vector<double> values;
  for (const HeadSums& s : sums)
    values.insert(values.end(),
                  {static_cast<double>(s.rows), static_cast<double>(s.counted), s.loss, s.feature,
                   static_cast<double>(s.top1), static_cast<double>(s.top5)});
  return values;
}

std::vector<HeadSums> sums_of(std::span<const double> values) {
  const auto count = [](double value) { return static_cast<int64_t>(value); };
  std::vector<HeadSums> sums;
  for (size_t at = 0; at < values.size(); at += kValues) {
    const std::span<const double> v = values.subspan(at, kValues);
    sums.push_back({count(v[0]), count(v[1]), v[2], v[3], count(v[4]), count(v[5])});
  }
  return sums;
}

Json scores_json(const std::vector<HeadSums>& sums) {
  Json heads = Json::array();
  for (const HeadSums& s : sums) {
    const auto rows = static_cast<double>(std::max<int64_t>(s.rows, 1));
    const auto counted = static_cast<double>(std::max<int64_t>(s.counted, 1));
    heads.push_back({{"loss", s.loss / counted},
                     {"feature_loss", s.feature / counted},
                     {"teacher_forced_top1", static_cast<double>(s.top1) / rows},
                     {"teacher_forced_top5", static_cast<double>(s.top5) / rows}});
  }
  return heads;
}

// The whole loss of a step, from the sums of its batches.
double loss_of(const std::vector<HeadSums>& sums, const Recipe& recipe) {
  double loss = 0;
  double weight = 1;
  for (const HeadSums& s : sums) {
    const auto counted = static_cast<double>(std::max<int64_t>(s.counted, 1));
    loss += weight * (recipe.token_weight * s.loss + recipe.feature_weight * s.feature) / counted;
    weight *= recipe.decay;
  }
  return loss;
}

}  // namespace clover
