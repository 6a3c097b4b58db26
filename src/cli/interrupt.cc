// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.h"

#include <csignal>

namespace clover {
namespace {

volatile std::sig_atomic_t seen = 0;
struct sigaction previous;

void note(int) { seen = 1; }

}  // namespace

InterruptWatch::InterruptWatch() {
  seen = 0;
  struct sigaction action {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  // The second signal meets the default action again.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &action, &previous);
}

InterruptWatch::~InterruptWatch() { sigaction(SIGINT, &previous, nullptr); }

bool InterruptWatch::interrupted() const { return seen != 0; }

}  // namespace clover
