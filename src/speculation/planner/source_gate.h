// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace clover {

// Whether a source that costs time is worth it. Closed when it has not paid for a while; then it is
// tried again for a few rounds after a pause so long that the trials cost at most a hundredth of
// the time.
class SourceGate {
 public:
  bool open() const { return pause_ == 0; }
  // A round went by without the source.
  void skipped() {
    if (pause_ > 0) --pause_;
    if (pause_ == 0) trial_ = 0;
  }
  // A round with the source: the step's expected tokens per millisecond with it over without it,
  // its own milliseconds and those of the whole step.
  void judged(double gain, double source_ms, double step_ms) {
    const double rate = rounds_ < kTrialRounds ? 1.0 / static_cast<double>(rounds_ + 1) : kRate;
    log_gain_ += rate * (std::log(gain) - log_gain_);
    ++rounds_;
    ++trial_;
    if (log_gain_ >= 0.0 || trial_ < kTrialRounds) return;
    const double share = std::clamp(source_ms / std::max(step_ms, 1e-6), 0.01, 1.0);
    pause_ = static_cast<int64_t>(static_cast<double>(kTrialRounds) * share / kProbeShare);
  }
  double gain() const { return std::exp(log_gain_); }

 private:
  static constexpr int64_t kTrialRounds = 8;
  static constexpr double kRate = 1.0 / 32.0;
  static constexpr double kProbeShare = 0.01;
  double log_gain_ = 0.0;  // smoothed
  int64_t rounds_ = 0;
  int64_t trial_ = 0;  // rounds since the gate opened
  int64_t pause_ = 0;  // rounds to skip
};

}  // namespace clover
