// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <chrono>
#include <string>

namespace clover {

// A bar on one line of a terminal, for work that takes a while. It writes nothing at all when the
// descriptor is no terminal or `quiet` is set, and leaves the line empty when it is done.
class ProgressBar {
 public:
  ProgressBar(std::string label, bool quiet, int descriptor = STDERR_FILENO);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar() { clear(); }

  // Shows the share done, 0 … 1 (others are clamped); at most some ten times a second.
  // `note` stands behind the percentage.
  void update(double share, const std::string& note = {});
  // Removes the bar; update() may draw it again.
  void clear();
  // For Model::load: `bar` is a ProgressBar.
  static void callback(double share, void* bar) { static_cast<ProgressBar*>(bar)->update(share); }

 private:
  using Clock = std::chrono::steady_clock;
  void write_all(const std::string& text) const;

  std::string label_;
  int descriptor_;
  bool enabled_;
  bool drawn_ = false;
  Clock::time_point due_;
};

}  // namespace clover
