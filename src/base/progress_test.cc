// SPDX-License-Identifier: Apache-2.0
#include "base/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>

namespace clover {
namespace {

// What can be read from a descriptor now.
std::string read_now(int descriptor) {
  std::string text;
  std::array<char, 4096> part;
  pollfd ready{descriptor, POLLIN, 0};
  while (poll(&ready, 1, 50) > 0) {
    const ssize_t count = read(descriptor, part.data(), part.size());
    if (count <= 0) break;
    text.append(part.data(), static_cast<size_t>(count));
  }
  return text;
}

// A pseudo terminal: what is written to `terminal` is read from `screen`.
struct PseudoTerminal {
  int screen = posix_openpt(O_RDWR | O_NOCTTY);
  int terminal = -1;
  PseudoTerminal() {
    if (grantpt(screen) == 0 && unlockpt(screen) == 0)
      terminal = open(ptsname(screen), O_RDWR | O_NOCTTY);
  }
  ~PseudoTerminal() {
    close(terminal);
    close(screen);
  }
};

void show(ProgressBar& bar, double share) {
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  bar.update(share);
}

TEST(ProgressBar, WritesNothingIntoAPipe) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  {
    ProgressBar bar("loading", false, ends[1]);
    show(bar, 0.5);
  }
  EXPECT_EQ(read_now(ends[0]), "");
  close(ends[0]);
  close(ends[1]);
}

TEST(ProgressBar, ShowsAndClearsItsLineOnATerminal) {
  PseudoTerminal pty;
  ASSERT_GE(pty.terminal, 0);
  {
    ProgressBar bar("loading", false, pty.terminal);
    bar.update(0.1);
    EXPECT_EQ(read_now(pty.screen), "") << "too early";
    show(bar, 0.5);
    const std::string half = read_now(pty.screen);
    EXPECT_NE(half.find("loading ["), std::string::npos) << half;
    EXPECT_NE(half.find("#."), std::string::npos) << half;
    EXPECT_NE(half.find(" 50%"), std::string::npos) << half;
  }
  EXPECT_EQ(read_now(pty.screen), "\r\x1b[K");
}

TEST(ProgressBar, ClampsSharesOutsideZeroToOne) {
  PseudoTerminal pty;
  ASSERT_GE(pty.terminal, 0);
  ProgressBar bar("x", false, pty.terminal);
  show(bar, 7.0);
  EXPECT_NE(read_now(pty.screen).find("100%"), std::string::npos);
  show(bar, std::numeric_limits<double>::quiet_NaN());
  EXPECT_NE(read_now(pty.screen).find("  0%"), std::string::npos);
  show(bar, -1.0);
  EXPECT_NE(read_now(pty.screen).find("  0%"), std::string::npos);
}

TEST(ProgressBar, QuietWritesNothingOnATerminal) {
  PseudoTerminal pty;
  ASSERT_GE(pty.terminal, 0);
  {
    ProgressBar bar("loading", true, pty.terminal);
    show(bar, 0.5);
  }
  EXPECT_EQ(read_now(pty.screen), "");
}

}  // namespace
}  // namespace clover
