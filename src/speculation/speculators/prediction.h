// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "speculation/speculators/draft_round.h"
#include "speculation/speculators/speculator.h"

namespace clover {

// Where a text is in a prediction of it.
struct PredictionPlace {
  int32_t next = 0;    // index of the predicted token that is due
  int32_t agreed = 0;  // tokens of the text before it that were as predicted, in a row
  int32_t lost = 0;    // tokens since the text left the prediction before `next`
};

// Follows a text through a prediction of it: token by token while they agree; behind a deviation it
// looks for the place where the text comes back. O(1) for a token that agrees, O(prediction) else.
class PredictionCursor {
 public:
  explicit PredictionCursor(std::span<const int32_t> predicted);
  const std::vector<int32_t>& predicted() const { return predicted_; }
  const PredictionPlace& place() const { return place_; }
  // Tokens of the prediction that the text has said, each counted once.
  int64_t said() const { return said_; }
  // The text's next token; `text` ends with it.
  void follow(std::span<const int32_t> text);

  // The place behind a token as it follows from a place alone; false when the text is lost there.
  bool advance(PredictionPlace& place, int32_t token) const;

 private:
  bool find_again(std::span<const int32_t> text);
  void say(int32_t index);

  std::vector<int32_t> predicted_;
  std::vector<bool> was_said_;
  PredictionPlace place_;
  int64_t said_ = 0;
};

// How many tokens of the prediction a text has said, each counted once, in the order of the text.
// No matter of drafts: a function of the two.
int64_t predicted_said(std::span<const int32_t> predicted, std::span<const int32_t> text);

// Proposes what a client predicted of the answer (DraftSequence::predicted), as OpenAI's "predicted
// outputs" have it. Says nothing for sequences without a prediction.
class PredictionSpeculator : public Speculator {
 public:
  std::string_view name() const override { return "prediction"; }
  int32_t bins() const override;
  int32_t max_depth() const override { return 64; }

  void begin(int64_t sequence) override { static_cast<void>(sequence); }
  void end(int64_t sequence) override;
  void observe(const ObservedPass& pass) override { static_cast<void>(pass); }
  void start(std::span<const DraftSequence> sequences) override;
  void expand(std::span<const DraftNode> nodes, int32_t width,
              std::vector<std::vector<Candidate>>& out) override;

 private:
  struct Followed {
    PredictionCursor cursor;
    size_t seen = 0;  // tokens of the sequence, its prompt included
  };
  // Of a node of the round; without a cursor: nothing to say.
  struct NodePlace {
    const PredictionCursor* cursor = nullptr;
    PredictionPlace place;
  };
  NodePlace place_of(const DraftNode& node) const;

  std::unordered_map<int64_t, Followed> followed_;
  DraftRound round_;
  std::vector<const PredictionCursor*> drafting_;  // [sequences of the round], null: no prediction
  std::vector<NodePlace> places_;                  // [nodes of the round]
};

}  // namespace clover
