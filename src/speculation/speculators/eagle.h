// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "speculation/speculators/eagle_network.h"
#include "speculation/speculators/feature_speculator.h"

namespace clover {

// Drafts with an EAGLE-1 layer. Drafted tokens have keys and values too: they lie in the scratch
// slots of the round, so a sequence drafts from no more nodes than it has such slots.
class EagleSpeculator : public FeatureSpeculator {
 public:
  EagleSpeculator(std::shared_ptr<const EagleWeights> weights, const SpeculatorHost& host);
  std::string_view name() const override { return "eagle"; }
  int32_t max_depth() const override { return static_cast<int32_t>(2 * weights_->heads); }
  void start(std::span<const DraftSequence> sequences) override;

 protected:
  Tensor digest(const Tensor& hidden, std::span<const int32_t> next,
                const AttentionPlan& plan) override;
  DraftStep draft(const DraftRows& rows) override;
  const DraftHead& draft_head() const override { return weights_->head; }
  bool place(int32_t node) override;

 private:
  void append_row(int32_t node, AttentionPlan& plan) const;

  std::shared_ptr<const EagleWeights> weights_;
  EagleNetwork network_;
  std::vector<int64_t> used_;  // scratch slots of every sequence
  std::vector<int64_t> slot_;  // of every node, -1: none
};

}  // namespace clover
