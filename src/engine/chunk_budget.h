// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace clover {

// How many prompt rows a pass may have: as many as allowed while nobody waits for its next token;
// otherwise as many as take about `stall_ms`, by what the passes before have taken.
class ChunkBudget {
 public:
  static constexpr int64_t kLeast = 16;    // prompts advance whatever the load
  static constexpr int64_t kUnknown = 64;  // before anything was measured

  ChunkBudget(int64_t most, double stall_ms) : most_(most), stall_ms_(stall_ms) {}

  // `others`: rows of sequences that are being answered.
  int64_t rows(int64_t others) const {
    if (others == 0) return most_;
    if (row_ms_ == 0.0) return std::min(most_, kUnknown);
    const auto affordable = static_cast<int64_t>(std::min(stall_ms_ / row_ms_, 1e6)) - others;
    return std::clamp(affordable / kLeast * kLeast, std::min(kLeast, most_), most_);
  }
  // A step with `prompt_rows` among its `rows` took `ms`.
  void timed(int64_t prompt_rows, int64_t rows, double ms) {
    if (prompt_rows < kLeast) return;  // says more about the cost of a pass than of a row
    const double row = ms / static_cast<double>(rows);
    row_ms_ = row_ms_ == 0.0 ? row : std::max(0.5 * (row_ms_ + row), 1e-6);
  }

 private:
  int64_t most_;
  double stall_ms_;
  double row_ms_ = 0.0;  // smoothed; 0: unknown
};

}  // namespace clover
