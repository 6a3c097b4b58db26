// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "speculation/speculators/draft_round.h"
#include "speculation/speculators/ngram_table.h"
#include "speculation/speculators/speculator.h"

namespace clover {

// Drafts from a package's n-gram table. Knows nothing of a sequence but its last tokens, and costs
// about a microsecond a node.
class TableSpeculator : public Speculator {
 public:
  explicit TableSpeculator(std::shared_ptr<const NgramTable> table) : table_(std::move(table)) {}

  std::string_view name() const override { return "table"; }
  int32_t bins() const override;
  int32_t max_depth() const override { return 16; }

  void begin(int64_t sequence) override { static_cast<void>(sequence); }
  void end(int64_t sequence) override { static_cast<void>(sequence); }
  void observe(const ObservedPass& pass) override { static_cast<void>(pass); }
  void start(std::span<const DraftSequence> sequences) override;
  void expand(std::span<const DraftNode> nodes, int32_t width,
              std::vector<std::vector<Candidate>>& out) override;

 private:
  std::shared_ptr<const NgramTable> table_;
  ContextRound round_{NgramTable::kOrders};
};

}  // namespace clover
