// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace clover {

// Speculators that can share one tree.
inline constexpr int32_t kMaxSources = 7;

// What one source says of a candidate.
struct Vote {
  int32_t source = 0;  // [0, kMaxSources)
  int32_t bin = 0;
  float probability = 0.0f;
};

// Turns the estimates of several sources into the probability that the target says a candidate,
// from what was right before. Two stages, as in context-mixing compressors: every bin of a source
// counts how often its candidates were right, starting from the source's own estimate; where
// several sources name the same token, a logistic mix of their counts (one set of weights for each
// set of sources) is learnt from the same outcomes.
class Calibration {
 public:
  // Predicted and observed rates of candidates whose predictions fell into one tenth.
  struct Reliability {
    int64_t count = 0;
    double predicted = 0.0;  // sums; divide by count
    double observed = 0.0;
  };

  // The number of bins of every source: at most kMaxSources.
  explicit Calibration(std::span<const int32_t> bins);

  // In [0.0001, 0.9999]. At least one vote, at most one of each source.
  float probability(std::span<const Vote> votes) const;
  // A candidate's outcome. Its parent must have been on the accepted path.
  void observe(std::span<const Vote> votes, bool right);
  const std::array<Reliability, 10>& reliability() const { return reliability_; }

 private:
  struct Bin {
    float right = 0.0f;
    float seen = 0.0f;
  };
  struct Mix {
    std::array<float, kMaxSources> weight{};
    float bias = 0.0f;
  };
  float bin_probability(const Vote& vote) const;
  static size_t set_of(std::span<const Vote> votes);

  std::vector<std::vector<Bin>> bins_;  // [source][bin]
  std::vector<Mix> mixes_;              // [set of sources]
  std::array<Reliability, 10> reliability_{};
};

}  // namespace clover
