// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace clover {

// Exit status of a verb that Ctrl-C ended, as a shell gives it.
inline constexpr int kInterrupted = 130;

// While one lives, Ctrl-C is noted instead of ending the program; a second one ends it. There is at
// most one at a time.
class InterruptWatch {
 public:
  InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  ~InterruptWatch();

  bool interrupted() const;
};

}  // namespace clover
