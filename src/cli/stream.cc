// SPDX-License-Identifier: Apache-2.0
#include "cli/stream.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "base/progress.h"
#include "cli/input.h"
#include "cli/interrupt.h"

namespace clover {

namespace {

constexpr const char* kDraftedColour = "\x1b[32m";
constexpr const char* kPlain = "\x1b[0m";

// The text with the tokens that were drafted in another colour.
std::string coloured(const Output& output) {
  std::string text;
  size_t at = 0;
  for (const OutputToken& token : output.tokens) {
    const auto bytes = static_cast<size_t>(token.text_bytes);
    if (token.drafted && bytes > 0) text += kDraftedColour;
    text.append(output.text, at, bytes);
    if (token.drafted && bytes > 0) text += kPlain;
    at += bytes;
  }
  return text.append(output.text, at);
}

}  // namespace

Answer stream_answer(Engine& engine, Request request, const StreamOptions& options) {
  Answer answer;
  ProgressBar bar("reading the prompt", options.quiet);
  const bool colours = options.show_accepted && isatty(STDOUT_FILENO) == 1;
  request.on_output = [&](const Output& output) {
    bar.clear();
    answer.add(output);
    print(colours ? coloured(output) : output.text);
  };
  const auto rows = static_cast<double>(request.prompt.size());
  const int64_t rows_before = engine.engine_stats().rows;
  const InterruptWatch watch;
  const int64_t id = engine.submit(std::move(request));
  bool more = true;
  while (more) {
    more = engine.step();
    if (watch.interrupted()) engine.cancel(id);
    const int64_t done = engine.engine_stats().rows - rows_before;
    if (answer.tokens.empty()) bar.update(static_cast<double>(done) / rows);
  }
  if (const RequestStats* stats = engine.stats(id)) answer.stats = *stats;
  engine.forget(id);
  return answer;
}

void print_statistics(const RequestStats& stats) {
  std::fprintf(stderr,
               "[prompt %lld tokens, answer %lld tokens, %.1f tokens/s, first after %.0f ms",
               static_cast<long long>(stats.prompt_tokens),
               static_cast<long long>(stats.completion_tokens), decode_speed(stats), stats.ttft_ms);
  if (stats.drafted > 0)
    std::fprintf(stderr, "; %.2f tokens a step, %lld of %lld drafts accepted",
                 1.0 + static_cast<double>(stats.accepted) /
                           static_cast<double>(std::max<int64_t>(stats.target_steps, 1)),
                 static_cast<long long>(stats.accepted), static_cast<long long>(stats.drafted));
  std::fputs("]\n", stderr);
}

}  // namespace clover
