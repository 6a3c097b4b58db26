// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/result.h"
#include "engine/engine.h"

namespace clover {

struct StreamOptions {
  bool quiet = false;          // no progress bar
  bool show_accepted = false;  // colour drafted tokens where standard output is a terminal
};

// Runs a request to its end, or to Ctrl-C, and writes its text to standard output as it comes.
// Errors as Engine::submit, and kIo when standard output cannot be written.
Answer stream_answer(Engine& engine, Request request, const StreamOptions& options);

// One line about an answer on standard error, for people.
void print_statistics(const RequestStats& stats);

}  // namespace clover
