// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace clover {

// The clock of every duration that Clover measures.
using Clock = std::chrono::steady_clock;

// Milliseconds from `begin` until now.
inline double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

}  // namespace clover
