// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "model/model.h"

namespace clover {

// A guess at the token that the target says after a node.
struct Candidate {
  int32_t token;
  float probability;  // the speculator's own estimate that the guess is right, (0, 1)
  int32_t bin;        // guesses of one bin are calibrated together, [0, Speculator::bins())
};

// A sequence that drafts in this round.
struct DraftSequence {
  int64_t id = 0;
  // Committed tokens; the last one, the root, is drawn but has not been through the target yet.
  std::span<const int32_t> tokens;
  // KV blocks of the sequence, the same for the target and for a speculator that keeps keys and
  // values of its own: slot s lies in blocks[s / kKvBlockTokens]. Token i has slot i; slots
  // tokens.size() … tokens.size() + draft_slots - 1 are scratch for drafted tokens of this round.
  std::span<const int32_t> blocks;
  int64_t draft_slots = 0;
  // What whoever asked expects the answer to be, empty: nothing said; the same in every round.
  std::span<const int32_t> predicted = {};
  int64_t answer_begin = 0;  // index into tokens: the prompt ends there
};

// A node to be continued. The nodes of a round are numbered through all its expand() calls.
struct DraftNode {
  int32_t sequence;  // index into the sequences of start()
  int32_t parent;    // number of the parent, -1 for a root
  int32_t token;
};

// A sequence of a finished target pass.
struct ObservedSequence {
  int64_t id = 0;
  // Everything known: a whole prompt while it is being read, then the committed tokens, among them
  // the one just drawn. There is always a token behind the last one that the pass stored.
  std::span<const int32_t> tokens;
  std::span<const int32_t> blocks;  // as in DraftSequence
  int64_t first = 0;                // the pass stored tokens first … first + rows.size() - 1,
  std::span<const int32_t> rows;    // which were these rows of the batch
};

// What a target pass and its verification brought.
struct ObservedPass {
  const Tensor& hidden;                        // [R, D] before the final norm
  std::span<const int32_t> tokens;             // [R] of the batch, rejected drafts among them
  std::span<const int32_t> parents;            // [R] the batch's: row of the token before, or -1:
                                               // that token is ObservedSequence::tokens[first - 1]
  std::span<const int32_t> top_rows;           // rows with logits, and
  std::span<const std::vector<TopEntry>> top;  // their needs().top_k largest raw logits, descending
  std::span<const ObservedSequence> sequences;
};

// What a speculator wants to see of a pass.
struct SpeculatorNeeds {
  bool hidden = false;  // `hidden` of the pass; otherwise it may be undefined
  int top_k = 0;        // entries of `top`; 0: none
};

// Proposes the target's next tokens. It decides how many positions a pass settles, never which
// token. The state that it keeps of a sequence is its own and follows committed tokens only.
//
// A round: start() names the sequences; expand() is called with the roots, then with chosen
// candidates depth by depth (every node's parent was expanded before it); the target verifies;
// observe() reports. Rounds may be skipped: observe() still comes for every pass, and a speculator
// with keys and values of its own catches up in the next start().
// One owner thread; the text never depends on anything here.
class Speculator {
 public:
  virtual ~Speculator() = default;
  virtual std::string_view name() const = 0;
  virtual int32_t bins() const = 0;
  virtual SpeculatorNeeds needs() const { return {}; }
  // Deepest useful draft: candidates below nodes of depth max_depth() - 1 (the root has depth 0).
  virtual int32_t max_depth() const = 0;
  // Whether a round costs passes over weights, so that the planner has to weigh it.
  virtual bool costly() const { return false; }

  // A new sequence; ids are not used again after end().
  virtual void begin(int64_t sequence) = 0;
  virtual void end(int64_t sequence) = 0;
  virtual void observe(const ObservedPass& pass) = 0;
  // A sequence is about to begin with `tokens`, of which the first were read by another sequence
  // and have their keys and values in `blocks`, all full; there are tokens behind them. How many of
  // those the speculator need not see again, a multiple of kKvBlockTokens: all, unless it keeps
  // something of its own for every token that only a pass can give it.
  virtual int64_t known_prefix(std::span<const int32_t> tokens,
                               std::span<const int32_t> blocks) const {
    static_cast<void>(tokens);
    return static_cast<int64_t>(blocks.size()) * kKvBlockTokens;
  }
  virtual void start(std::span<const DraftSequence> sequences) = 0;
  // Candidates for the token after each node, best first, no token twice: out[i] for nodes[i], at
  // most `width` each. All nodes of a call have the same depth.
  virtual void expand(std::span<const DraftNode> nodes, int32_t width,
                      std::vector<std::vector<Candidate>>& out) = 0;
};

// Where a speculator will live.
struct SpeculatorHost {
  std::shared_ptr<const Model> target;
  int64_t kv_blocks = 0;  // blocks of the engine's pool: block ids are below it
  DType kv_type = DType::kF16;
};
// Makes a speculator for an engine. Error(kInvalidArgument) when it does not fit the target.
using SpeculatorFactory = std::function<std::unique_ptr<Speculator>(const SpeculatorHost&)>;

}  // namespace clover
