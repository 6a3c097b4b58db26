// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "speculation/speculators/draft_round.h"
#include "speculation/speculators/speculator.h"

namespace clover {

// A smaller model with the target's vocabulary proposes what it would say itself. Its keys and
// values lie in a store of its own under the sequence's block table. It reads nothing of the
// target's passes: start() runs whatever committed tokens it has not read yet, so a pause costs
// rows later, not now.
class DraftModelSpeculator : public Speculator {
 public:
  static constexpr int32_t kMaxWidth = 16;    // candidates of a node
  static constexpr int64_t kChunkRows = 256;  // of one pass that reads committed tokens

  // Error(kInvalidArgument) naming both sizes when the vocabularies differ; that they hold the same
  // tokens is for the caller to check. Error(kExhausted) when the KV memory cannot be had.
  DraftModelSpeculator(std::shared_ptr<const Model> model, const SpeculatorHost& host);

  std::string_view name() const override { return "draft"; }
  int32_t bins() const override;
  int32_t max_depth() const override { return 16; }
  bool costly() const override { return true; }

  void begin(int64_t sequence) override;
  void end(int64_t sequence) override;
  void observe(const ObservedPass&) override {}
  // Error(kInvalidArgument) for unknown sequences, tokens outside the vocabulary and blocks that
  // are too few or not the store's.
  void start(std::span<const DraftSequence> sequences) override;
  // Roots alone, or drafts of one depth.
  void expand(std::span<const DraftNode> nodes, int32_t width,
              std::vector<std::vector<Candidate>>& out) override;

  // Committed tokens of the sequence whose keys and values are stored.
  int64_t stored(int64_t sequence) const;
  const KvStore& kv() const { return *kv_; }

 private:
  struct State {
    int64_t stored = 0;
  };
  // A sequence of the round.
  struct Part {
    State* state;
    DraftSequence sequence;
    bool active;  // the model's context holds the root
    std::vector<Candidate> after_root;
    std::vector<int32_t> stored_parents;  // of the drafts that have slots, among themselves
  };
  // A draft to be run.
  struct Row {
    size_t index;  // into the nodes of expand()
    int32_t sequence;
    int32_t token;
    int32_t parent;  // as in Part::stored_parents
  };
  Part part_of(const DraftSequence& sequence);
  // What a block holds: its first `slots` tokens and a hash of the text up to the last of them.
  // Hashes are enough: drafts alone depend on what is found in a block.
  struct Written {
    uint64_t hash = 0;
    int64_t slots = 0;
  };
  void find_stored(Part& part);
  void mark_stored(const Part& part, int64_t end);
  void mark_scratch(const Part& part, int64_t first, int64_t end);
  bool read_chunk();
  std::vector<Row> admit(std::span<const DraftNode> nodes, int32_t depth);
  Batch batch_of(std::span<const Row> rows) const;
  std::vector<std::vector<Candidate>> candidates(const Tensor& logits, int32_t depth) const;

  std::shared_ptr<const Model> model_;
  std::unique_ptr<KvStore> kv_;
  std::unordered_map<int64_t, State> states_;
  std::vector<Written> written_;  // [blocks]
  DraftRound round_;
  std::vector<Part> parts_;
  // [nodes of the round] a draft's number among its sequence's, -1: a root, -2: it was not run.
  std::vector<int32_t> places_;
};

}  // namespace clover
