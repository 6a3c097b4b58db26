// SPDX-License-Identifier: Apache-2.0
#include "speculation/planner/calibration.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace clover {
namespace {

// Observations that the source's own estimate counts for.
constexpr float kPriorWeight = 12.0f;
// A bin forgets: beyond this many observations both counts are halved.
constexpr float kMemory = 2048.0f;
constexpr float kLearningRate = 0.02f;
// The weight of each of several agreeing sources before anything was learnt: between an average
// (1/n) and independent evidence (1).
constexpr float kAgreementWeight = 0.75f;
constexpr float kLowest = 1e-4f;

float clamp(float p) { return std::clamp(p, kLowest, 1.0f - kLowest); }
float stretch(float p) { return std::log(p / (1.0f - p)); }

}  // namespace

Calibration::Calibration(std::span<const int32_t> bins) {
  if (std::ssize(bins) > kMaxSources)
    fail(ErrorCode::kInvalidArgument, "{} speculators cannot share a tree, at most {}", bins.size(),
         kMaxSources);
  for (const int32_t count : bins) bins_.emplace_back(static_cast<size_t>(count));
  mixes_.resize(size_t{1} << bins.size());
  for (size_t set = 1; set < mixes_.size(); ++set) {
    const bool alone = (set & (set - 1)) == 0;
    mixes_[set].weight.fill(alone ? 1.0f : kAgreementWeight);
  }
}

float Calibration::bin_probability(const Vote& vote) const {
  const Bin& bin = bins_[static_cast<size_t>(vote.source)][static_cast<size_t>(vote.bin)];
  return clamp((bin.right + kPriorWeight * vote.probability) / (bin.seen + kPriorWeight));
}

size_t Calibration::set_of(std::span<const Vote> votes) {
  size_t set = 0;
  for (const Vote& vote : votes) set |= size_t{1} << vote.source;
  return set;
}

float Calibration::probability(std::span<const Vote> votes) const {
  const Mix& weights = mixes_[set_of(votes)];
  float sum = weights.bias;
  for (const Vote& vote : votes)
    sum += weights.weight[static_cast<size_t>(vote.source)] * stretch(bin_probability(vote));
  return clamp(1.0f / (1.0f + std::exp(-sum)));
}

void Calibration::observe(std::span<const Vote> votes, bool right) {
  const float predicted = probability(votes);
  const float outcome = right ? 1.0f : 0.0f;
  Reliability& tenth = reliability_[std::min<size_t>(static_cast<size_t>(predicted * 10.0f), 9)];
  ++tenth.count;
  tenth.predicted += predicted;
  tenth.observed += outcome;

  Mix& weights = mixes_[set_of(votes)];
  const float step = kLearningRate * (outcome - predicted);
  for (const Vote& vote : votes)
    weights.weight[static_cast<size_t>(vote.source)] += step * stretch(bin_probability(vote));
  weights.bias += step;
  for (const Vote& vote : votes) {
    Bin& bin = bins_[static_cast<size_t>(vote.source)][static_cast<size_t>(vote.bin)];
    bin.right += outcome;
    bin.seen += 1.0f;
    if (bin.seen > kMemory) {
      bin.right *= 0.5f;
      bin.seen *= 0.5f;
    }
  }
}

}  // namespace clover
