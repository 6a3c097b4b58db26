// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

namespace clover {

// Reads lines from standard input: with editing and history on a terminal, plainly from a pipe.
class LineReader {
 public:
  explicit LineReader(std::string prompt);
  ~LineReader();

  enum class Result { kLine, kInterrupted, kEnd };
  // One line without its end. kInterrupted: Ctrl-C (only on a terminal); kEnd: Ctrl-D, end of file.
  Result read(std::string& line);

 private:
  struct Terminal;
  std::unique_ptr<Terminal> terminal_;  // null for a pipe
};

}  // namespace clover
