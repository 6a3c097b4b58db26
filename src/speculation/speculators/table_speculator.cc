// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/table_speculator.h"

#include "speculation/speculators/probability_bin.h"

namespace clover {

int32_t TableSpeculator::bins() const {
  return static_cast<int32_t>(NgramTable::kOrders) * kProbabilityBins;
}

void TableSpeculator::start(std::span<const DraftSequence> sequences) { round_.start(sequences); }

void TableSpeculator::expand(std::span<const DraftNode> nodes, int32_t width,
                             std::vector<std::vector<Candidate>>& out) {
  const int32_t first = round_.add(nodes);
  out.assign(nodes.size(), {});
  std::vector<int32_t> context;
  std::vector<NgramTable::Guess> guesses;
  for (size_t i = 0; i < nodes.size(); ++i) {
    round_.context(first + static_cast<int32_t>(i), context);
    table_->guesses(context, width, guesses);
    for (const NgramTable::Guess& guess : guesses)
      out[i].push_back({guess.token, guess.probability,
                        (guess.order - 1) * kProbabilityBins + probability_bin(guess.probability)});
  }
}

}  // namespace clover
