// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_map>
#include <vector>

#include "speculation/speculators/draft_round.h"
#include "speculation/speculators/ngram_index.h"
#include "speculation/speculators/speculator.h"

namespace clover {

// Lookup: proposes what followed the same tokens earlier in the prompt or the answer. Needs nothing
// of the target but its tokens.
class NgramSpeculator : public Speculator {
 public:
  std::string_view name() const override { return "ngram"; }
  int32_t bins() const override;
  int32_t max_depth() const override { return 32; }

  void begin(int64_t sequence) override;
  void end(int64_t sequence) override;
  void observe(const ObservedPass& pass) override;
  void start(std::span<const DraftSequence> sequences) override;
  void expand(std::span<const DraftNode> nodes, int32_t width,
              std::vector<std::vector<Candidate>>& out) override;

  // What is indexed of a sequence. Error(kInvalidArgument) for an unknown one, as everywhere here.
  const NgramIndex& index(int64_t sequence) const;

 private:
  NgramIndex& catch_up(int64_t sequence, std::span<const int32_t> tokens);

  std::unordered_map<int64_t, NgramIndex> indices_;
  DraftRound round_;
  std::vector<const NgramIndex*> drafting_;  // [sequences of the round]
};

}  // namespace clover
