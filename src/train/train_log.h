// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace clover {

// The log of a training run: JSON lines with a "step" each.
class TrainLog {
 public:
  // Goes on with a log: lines of later steps than `step`, and a last line that was cut off, are
  // removed. A missing file is an empty log.
  TrainLog(std::string path, int64_t step);

  // Appends a line. Error(kExhausted) when the disk is full, kIo otherwise.
  void add(const Json& line);
  const std::vector<Json>& lines() const { return lines_; }

 private:
  std::string path_;
  std::vector<Json> lines_;
};

// Writes loss.svg and acceptance.svg of a log into a folder.
void draw_log(const std::vector<Json>& lines, const std::string& folder);

}  // namespace clover
