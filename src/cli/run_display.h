// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "base/progress.h"

namespace clover {

// Prints "clover: TEXT" as a line on standard error.
void note(const std::string& text);

// How far a long run is: a bar on a terminal, a line every half minute elsewhere, nothing when
// quiet.
class RunDisplay {
 public:
  RunDisplay(const std::string& label, bool quiet);

  // `share` done, 0 … 1; `rates` stands behind the bar, and in a line behind what `line` returns.
  void show(double share, const std::string& rates, const std::function<std::string()>& line);
  // A note between, unless quiet.
  void say(const std::string& text);
  void clear() { bar_.clear(); }
  // Since it was made.
  double seconds() const { return ms_since(begin_) / 1000; }

 private:
  bool quiet_;
  bool terminal_;
  ProgressBar bar_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
};

}  // namespace clover
