// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace clover {

inline constexpr int32_t kProbabilityBins = 8;

// The nearest probability that Candidate allows.
inline float open_probability(float p) { return std::clamp(p, 1e-4f, 0.999f); }

// Bin of a probability in (0, 1): equal steps of log-odds from about 0.01 to 0.99, so that guesses
// that are nearly sure or nearly hopeless are told apart.
inline int32_t probability_bin(float p) {
  const float odds = std::log(p / (1.0f - p));
  const float step = std::floor((odds + 4.6f) / 9.2f * kProbabilityBins);
  return static_cast<int32_t>(std::clamp(step, 0.0f, kProbabilityBins - 1.0f));
}

// Guesses of models and trained heads are calibrated by depth (deeper ones share the last) and by
// their own probability: bins in [0, kBinDepths * kProbabilityBins).
inline constexpr int32_t kBinDepths = 8;
inline int32_t depth_bin(int32_t depth, float p) {
  return std::min(depth, kBinDepths - 1) * kProbabilityBins + probability_bin(p);
}

}  // namespace clover
