// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "speculation/planner/calibration.h"
#include "speculation/planner/cost_curve.h"
#include "speculation/planner/draft_pool.h"
#include "speculation/planner/draft_ranks.h"
#include "speculation/planner/source_gate.h"
#include "speculation/planner/tree_policy.h"
#include "speculation/speculators/speculator.h"
#include "speculation/tree/token_tree.h"

namespace clover {

// A sequence that may get drafts in this step.
struct DraftRequest {
  DraftSequence sequence;
  int64_t max_nodes = 0;  // drafts that fit its KV memory, its context and its limit
  int64_t max_depth = 0;  // drafts in a row that can still be of use
  // Whether a draft can be drawn after these drafts behind the last token; the others are left out.
  // Empty: all can.
  std::function<bool(std::span<const int32_t> drafts, int32_t token)> may_follow = {};
};

// What the verification of a drafted tree brought.
struct DraftOutcome {
  std::span<const int32_t> path;    // nodes of the tree, the root first (WalkResult::path)
  std::span<const int32_t> tokens;  // drawn after each of them
};

// Grows the trees of a step from all speculators together and decides how many nodes each sequence
// gets. Cheap sources are asked every time; a costly one only while what it adds is worth its time.
// Nothing decided here can change a text.
class Drafter {
 public:
  // Error(kInvalidArgument) for more than kMaxSources speculators.
  Drafter(std::vector<std::unique_ptr<Speculator>> speculators, const TreePolicy& policy,
          CostCurve cost);
  ~Drafter();

  bool empty() const { return sources_.empty(); }
  // Whether a speculator computes passes of its own.
  bool costly() const {
    return std::any_of(sources_.begin(), sources_.end(),
                       [](const Source& source) { return source.speculator->costly(); });
  }
  SpeculatorNeeds needs() const;
  int64_t max_nodes() const { return policy_.nodes; }

  // The least of what the speculators say (Speculator::known_prefix).
  int64_t known_prefix(std::span<const int32_t> tokens, std::span<const int32_t> blocks) const;
  void begin(int64_t sequence);
  void end(int64_t sequence);
  // One tree for every request, its root the sequence's last token; trees without drafts are usual.
  // The pass will have `other_rows` rows besides these trees. Views in `requests` must stay valid
  // during the call only.
  std::vector<TokenTree> draft(std::span<const DraftRequest> requests, int64_t other_rows);
  // What became of the trees of the last draft(), in the same order; an outcome without a path
  // teaches nothing.
  void learn(std::span<const DraftOutcome> outcomes);
  void observe(const ObservedPass& pass);
  // A pass of `rows` rows took `pass_ms`, everything else of the step `other_ms`.
  void timed(int64_t rows, double pass_ms, double other_ms);

  const Calibration& calibration() const { return calibration_; }
  const CostCurve& cost() const { return cost_; }
  const DraftRanks& ranks() const { return ranks_; }

 private:
  struct Source {
    std::unique_ptr<Speculator> speculator;
    SourceGate gate;
    bool active = false;  // in this round
    double round_ms = 0.0;
    // Number that the speculator knows an entry by, -1: not expanded: [sequence][entry].
    std::vector<std::vector<int32_t>> number;
    int32_t expanded = 0;
  };
  struct Frontier {
    int32_t sequence;
    int32_t entry;
  };
  // A choice of nodes and what it promises.
  struct Plan {
    std::vector<std::vector<int32_t>> entries;  // [sequence], parents first
    double tokens = 0.0;                        // expected of the step
    double ms = 0.0;                            // of the step, without costly sources
  };

  // What a source says of every node of a frontier; empty where it was not asked.
  using Sayings = std::vector<std::vector<Candidate>>;

  void start_round(std::span<const DraftRequest> requests);
  void grow(std::span<const DraftRequest> requests, int64_t other_rows);
  Sayings ask(Source& source, std::span<const Frontier> frontier);
  void add_children(std::span<const Frontier> frontier, std::span<const Sayings> said);
  std::vector<Frontier> next_frontier(std::span<const DraftRequest> requests,
                                      std::span<const int32_t> level_begin, float least) const;
  double step_ms(int64_t sequences, int64_t other_rows, int64_t drafts) const;
  float least_useful(int64_t sequences, int64_t other_rows) const;
  Plan choose(std::span<const DraftPool> pools, std::span<const DraftRequest> requests,
              int64_t other_rows) const;
  Plan choose_best(std::span<const DraftPool> pools, std::span<const DraftRequest> requests,
                   int64_t other_rows) const;
  DraftPool without(const DraftPool& pool, int32_t source) const;
  void judge(std::span<const DraftRequest> requests, int64_t other_rows, const Plan& plan);

  std::vector<Source> sources_;
  TreePolicy policy_;
  CostCurve cost_;
  Calibration calibration_;
  DraftRanks ranks_;
  double other_ms_ = 0.0;         // of a step outside the pass and costly sources, smoothed
  std::vector<DraftPool> pools_;  // of the last round
  std::vector<std::vector<int32_t>> chosen_;  // pool entry of every tree node: [sequence][node]
};

}  // namespace clover
