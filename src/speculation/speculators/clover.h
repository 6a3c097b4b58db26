// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "speculation/speculators/clover_network.h"
#include "speculation/speculators/feature_speculator.h"

namespace clover {

// Drafts with a member of the Clover family. The augmenting block's keys and values lie in the
// target's own block tables: slot i is token i's, made of its true hidden state and, with
// decoder_first, of token i + 1.
class CloverSpeculator : public FeatureSpeculator {
 public:
  CloverSpeculator(std::string name, std::shared_ptr<const CloverWeights> weights,
                   const SpeculatorHost& host);
  std::string_view name() const override { return name_; }
  // Shared regressive heads go on beyond the depth that they were trained to.
  int32_t max_depth() const override;

 protected:
  Tensor digest(const Tensor& hidden, std::span<const int32_t> next,
                const AttentionPlan& plan) override;
  DraftStep draft(const DraftRows& rows) override;
  const DraftHead& draft_head() const override { return weights_->head; }
  bool same_in_sequence(int32_t depth) const override {
    return depth > 0 && !weights_->config.regressive;
  }

 private:
  std::string name_;
  std::shared_ptr<const CloverWeights> weights_;
  CloverNetwork network_;
  std::unique_ptr<KvStore> no_kv_;  // stands in where no layer of the block attends
};

}  // namespace clover
