// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "speculation/speculators/draft_round.h"
#include "speculation/speculators/speculator.h"

namespace clover {

// What a target found likely after a context the last time it saw it, for a bounded number of
// contexts; the ones not seen for longest give way.
class RecallTable {
 public:
  static constexpr int kBest = 8;
  struct Row {
    std::array<int32_t, kBest> tokens;
    std::array<float, kBest> probabilities;  // falling; 0: no entry
  };

  // `capacity` contexts, a power of two ≥ kWays.
  explicit RecallTable(int64_t capacity);
  // Null when nothing is known. Valid until the next set().
  const Row* find(uint64_t context) const;
  void set(uint64_t context, const Row& row);
  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  int64_t capacity() const { return static_cast<int64_t>(places_.size()); }

 private:
  static constexpr size_t kWays = 4;
  struct Entry {
    uint64_t context;
    uint64_t age;  // of the last set(), counted up
    Row row;
  };
  size_t group(uint64_t context) const;

  std::vector<int32_t> places_;  // groups of kWays places into entries_, -1: free
  std::vector<Entry> entries_;
  uint64_t now_ = 0;
};

// Token recycling (arXiv 2408.08696): proposes what the target itself ranked highest the last time
// it saw the same last tokens, in any sequence, at rows of rejected drafts too. Where the paper
// keys by one token, the last three and two come first here.
class RecyclingSpeculator : public Speculator {
 public:
  static constexpr int32_t kOrders = 3;  // contexts of 1 … kOrders tokens

  RecyclingSpeculator();

  std::string_view name() const override { return "recycle"; }
  int32_t bins() const override;
  SpeculatorNeeds needs() const override { return {.top_k = RecallTable::kBest}; }
  int32_t max_depth() const override { return 16; }

  void begin(int64_t sequence) override;
  void end(int64_t sequence) override;
  void observe(const ObservedPass& pass) override;
  void start(std::span<const DraftSequence> sequences) override;
  void expand(std::span<const DraftNode> nodes, int32_t width,
              std::vector<std::vector<Candidate>>& out) override;

  const RecallTable& table(int32_t order) const { return tables_[static_cast<size_t>(order - 1)]; }

 private:
  void learn(std::span<const int32_t> context, std::span<const TopEntry> top);
  void candidates(std::span<const int32_t> context, int32_t width,
                  std::vector<Candidate>& out) const;

  std::vector<RecallTable> tables_;  // [kOrders]
  ContextRound round_{kOrders};
};

}  // namespace clover
