// SPDX-License-Identifier: Apache-2.0
#include "cli/run_display.h"

#include <unistd.h>

#include <cstdio>

namespace clover {
namespace {

constexpr double kLogSeconds = 30;

}  // namespace

void note(const std::string& text) { std::fprintf(stderr, "clover: %s\n", text.c_str()); }

RunDisplay::RunDisplay(const std::string& label, bool quiet)
    : quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1), bar_(label, quiet) {}

void RunDisplay::show(double share, const std::string& rates,
                      const std::function<std::string()>& line) {
  if (quiet_) return;
  if (terminal_) {
    bar_.update(share, rates);
  } else if (ms_since(last_) >= 1000 * kLogSeconds) {
    last_ = Clock::now();
    note(line() + rates);
  }
}

void RunDisplay::say(const std::string& text) {
  if (quiet_) return;
  bar_.clear();
  note(text);
}

}  // namespace clover
