// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "engine/report.h"
#include "engine/request.h"

namespace clover {

// An answer as it came out of the engine, put together.
struct Answer {
  std::string text;
  std::vector<OutputToken> tokens;
  FinishReason finish = FinishReason::kNone;
  std::string error;
  RequestStats stats;

  void add(const Output& output);
};

}  // namespace clover
