// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "speculation/speculators/draft_head.h"
#include "speculation/speculators/draft_round.h"
#include "speculation/speculators/probability_bin.h"
#include "speculation/speculators/speculator.h"

namespace clover {

// What speculators that read the target's hidden states have in common. The features of committed
// tokens, each with the token that follows it, are kept as they are observed and worked through
// (digest) in one pass of all sequences in the next start(), or as soon as a sequence has
// kMaxPending of them. What the last of them gave is where the drafts of a sequence begin.
class FeatureSpeculator : public Speculator {
 public:
  static constexpr int64_t kMaxPending = 512;  // features kept of a sequence

  int32_t bins() const override { return kBinDepths * kProbabilityBins; }
  SpeculatorNeeds needs() const override { return {.hidden = true}; }
  bool costly() const override { return true; }
  void begin(int64_t sequence) override;
  void end(int64_t sequence) override;
  void observe(const ObservedPass& pass) override;
  int64_t known_prefix(std::span<const int32_t> tokens,
                       std::span<const int32_t> blocks) const override;
  void start(std::span<const DraftSequence> sequences) override;
  void expand(std::span<const DraftNode> nodes, int32_t width,
              std::vector<std::vector<Candidate>>& out) override;

  // Keys and values of its own, null when it has none.
  const KvStore* kv() const { return kv_.get(); }
  // Where the drafts of a sequence begin: [D], empty before the first digest.
  std::span<const float> base(int64_t sequence) const { return states_.at(sequence).last; }

 protected:
  // `history`: digest() has to see every feature, not just a sequence's last. `kv_layers`: 0: none.
  FeatureSpeculator(const SpeculatorHost& host, bool history, int64_t kv_layers);

  // Nodes of one depth that are to be drafted from.
  struct DraftRows {
    int32_t depth = 0;
    std::vector<int32_t> nodes;   // their numbers in the round
    std::vector<int32_t> tokens;  // their tokens
    Tensor before;  // [R, D] the parents' states; for roots where the drafts of the sequence begin
  };
  struct DraftStep {
    Tensor state;  // [R, D] kept for the nodes' children
    HeadInput head;
  };

  // Features [R, D] of the plan's rows and the tokens behind them: [R, D] of which the last row of
  // a sequence is kept.
  virtual Tensor digest(const Tensor& hidden, std::span<const int32_t> next,
                        const AttentionPlan& plan) = 0;
  virtual DraftStep draft(const DraftRows& rows) = 0;
  virtual const DraftHead& draft_head() const = 0;
  // Whether nodes of this depth draft the same, whatever their token.
  virtual bool same_in_sequence(int32_t) const { return false; }
  // Whether there is room to draft from this node.
  virtual bool place(int32_t) { return true; }

  Backend& backend() const { return host_.target->backend(); }
  const Model& target() const { return *host_.target; }
  KvStore* own_kv() { return kv_.get(); }
  const DraftRound& round() const { return round_; }
  std::span<const DraftSequence> sequences() const { return sequences_; }
  // Refuses blocks that are too few for `slots` or outside the store.
  void check_blocks(std::span<const int32_t> blocks, int64_t slots) const;

 private:
  struct State {
    int64_t digested = 0;       // features of tokens 0 … digested - 1 have been worked through
    std::vector<float> hidden;  // [pending][D] the features that follow
    std::vector<int32_t> next;  // [pending] and the token behind each
    std::vector<float> last;    // [D] what the last digested feature gave
  };
  // What a block holds of this speculator's keys and values. They depend on the token behind, so
  // that a full block is of use only to texts that go on with the same token.
  struct Filled {
    int32_t slots = 0;  // the first of the block, without a gap
    int32_t behind = -1;
  };
  struct Work {
    State* state;
    std::span<const int32_t> blocks;
  };
  void keep(const ObservedPass& pass, const ObservedSequence& sequence, State& state);
  void catch_up(std::vector<Work> work);
  void digest_some(std::span<const Work> work);
  void forget_slots(std::span<const int32_t> blocks, int64_t first, int64_t count);
  void note_slot(std::span<const int32_t> blocks, int64_t slot, int32_t behind);
  std::vector<int64_t> choose_rows(int32_t first, int32_t depth, std::vector<int32_t>& chosen);
  void read_before(std::span<const int32_t> numbers, DraftRows& rows) const;

  SpeculatorHost host_;
  bool history_;
  int64_t hidden_;
  std::unique_ptr<KvStore> kv_;
  std::unordered_map<int64_t, State> states_;
  std::vector<Filled> filled_;  // [blocks], empty without keys and values
  // The round.
  DraftRound round_;
  std::vector<DraftSequence> sequences_;
  std::vector<const State*> ready_;  // null: nothing to begin with
  std::vector<int32_t> depth_;       // of every node
  std::vector<int64_t> kept_;        // place of a node's state in node_states_, -1: none
  std::vector<float> node_states_;   // [..][D]
};

}  // namespace clover
