// SPDX-License-Identifier: Apache-2.0
#include "cli/stream.h"

#include <cstdio>
#include <utility>

#include "base/progress.h"
#include "cli/input.h"
#include "cli/interrupt.h"

namespace clover {

Answer stream_answer(Engine& engine, Request request, bool quiet) {
  Answer answer;
  ProgressBar bar("reading the prompt", quiet);
  request.on_output = [&](const Output& output) {
    bar.clear();
    answer.add(output);
    print(output.text);
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
               "[prompt %lld tokens, answer %lld tokens, %.1f tokens/s, first after %.0f ms]\n",
               static_cast<long long>(stats.prompt_tokens),
               static_cast<long long>(stats.completion_tokens), decode_speed(stats), stats.ttft_ms);
}

}  // namespace clover
