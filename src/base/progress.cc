// SPDX-License-Identifier: Apache-2.0
#include "base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace clover {
namespace {

// Work shorter than this shows no bar: a flicker tells nobody anything.
constexpr std::chrono::milliseconds kFirst{200};
constexpr std::chrono::milliseconds kBetween{80};
constexpr int kMaxBar = 40;

int terminal_columns(int descriptor) {
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

ProgressBar::ProgressBar(std::string label, bool quiet, int descriptor)
    : label_(std::move(label)),
      descriptor_(descriptor),
      enabled_(!quiet && isatty(descriptor) == 1),
      due_(Clock::now() + kFirst) {}

void ProgressBar::update(double share, const std::string& note) {
  if (!enabled_ || Clock::now() < due_) return;
  due_ = Clock::now() + kBetween;
  share = std::isnan(share) ? 0.0 : std::clamp(share, 0.0, 1.0);
  // One column stays free, or some terminals would wrap the line.
  const int room =
      terminal_columns(descriptor_) - static_cast<int>(label_.size() + note.size()) - 11;
  const int width = std::clamp(room, 0, kMaxBar);
  const int full = static_cast<int>(share * width);
  write_all(fmt::format("\r\x1b[K{} [{:#<{}}{:.<{}}] {:3.0f}%{}{}", label_, "", full, "",
                        width - full, std::floor(share * 100.0), note.empty() ? "" : " ", note));
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) write_all("\r\x1b[K");
  drawn_ = false;
}

void ProgressBar::write_all(const std::string& text) const {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(descriptor_, text.data() + done, text.size() - done);
    if (written <= 0) return;  // a bar that cannot be shown is no reason to fail
    done += static_cast<size_t>(written);
  }
}

}  // namespace clover
