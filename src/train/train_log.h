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

// A curve of a diagram.
struct Curve {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;
};

// A diagram as SVG text: curves over a linear x axis, with a grid and a legend. Points that are not
// finite are left out.
std::string draw_curves(const std::string& title, const std::string& x_label,
                        const std::string& y_label, const std::vector<Curve>& curves);

// Writes loss.svg and acceptance.svg of a log into a folder.
void draw_log(const std::vector<Json>& lines, const std::string& folder);

}  // namespace clover
