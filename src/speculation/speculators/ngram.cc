// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/ngram.h"

#include "base/error.h"
#include "speculation/speculators/probability_bin.h"

namespace clover {
int32_t NgramSpeculator::bins() const { return NgramIndex::kLevels * kProbabilityBins; }

void NgramSpeculator::begin(int64_t sequence) {
  if (!indices_.try_emplace(sequence).second)
    fail(ErrorCode::kInvalidArgument, "lookup already has a sequence {}", sequence);
}

void NgramSpeculator::end(int64_t sequence) {
  index(sequence);
  drafting_.clear();  // may point to it
  indices_.erase(sequence);
}

const NgramIndex& NgramSpeculator::index(int64_t sequence) const {
  const auto it = indices_.find(sequence);
  if (it == indices_.end())
    fail(ErrorCode::kInvalidArgument, "lookup has no sequence {}", sequence);
  return it->second;
}

NgramIndex& NgramSpeculator::catch_up(int64_t sequence, std::span<const int32_t> tokens) {
  index(sequence);
  NgramIndex& own = indices_.at(sequence);
  if (own.tokens().size() > tokens.size())
    fail(ErrorCode::kInvalidArgument, "sequence {} shrank from {} to {} tokens", sequence,
         own.tokens().size(), tokens.size());
  for (const int32_t token : tokens.subspan(own.tokens().size())) own.append(token);
  return own;
}

void NgramSpeculator::observe(const ObservedPass& pass) {
  for (const ObservedSequence& sequence : pass.sequences) catch_up(sequence.id, sequence.tokens);
}

void NgramSpeculator::start(std::span<const DraftSequence> sequences) {
  round_.start(sequences.size());
  drafting_.clear();
  for (const DraftSequence& sequence : sequences)
    drafting_.push_back(&catch_up(sequence.id, sequence.tokens));
}

void NgramSpeculator::expand(std::span<const DraftNode> nodes, int32_t width,
                             std::vector<std::vector<Candidate>>& out) {
  const int32_t first = round_.add(nodes);
  out.assign(nodes.size(), {});
  std::vector<int32_t> context;
  std::vector<NgramIndex::Guess> guesses;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NgramIndex& index = *drafting_[static_cast<size_t>(nodes[i].sequence)];
    round_.context(first + static_cast<int32_t>(i), index.tokens(), NgramIndex::kLongest, context);
    index.guesses(context, guesses);
    for (const NgramIndex::Guess& guess : guesses) {
      if (static_cast<int32_t>(out[i].size()) >= width) break;
      const int32_t bin = guess.level * kProbabilityBins + probability_bin(guess.probability);
      out[i].push_back({guess.token, guess.probability, bin});
    }
  }
}

}  // namespace clover
