// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace clover {

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
