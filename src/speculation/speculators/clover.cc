// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/clover.h"

#include <algorithm>
#include <utility>

namespace clover {

CloverSpeculator::CloverSpeculator(std::string name, std::shared_ptr<const CloverWeights> weights,
                                   const SpeculatorHost& host)
    : FeatureSpeculator(host, weights->config.has_attention(),
                        weights->config.has_attention() ? weights->config.block_layers : 0),
      name_(std::move(name)),
      weights_(std::move(weights)),
      network_(*weights_, target()) {
  if (!own_kv()) no_kv_ = backend().make_kv_store(target().kv_shape(1, host.kv_type));
}

int32_t CloverSpeculator::max_depth() const {
  const CloverConfig& c = weights_->config;
  const bool goes_on = c.regressive && c.shared_heads && c.steps() > 1;
  return static_cast<int32_t>(goes_on ? 2 * c.heads : c.heads);
}

Tensor CloverSpeculator::digest(const Tensor& hidden, std::span<const int32_t> next,
                                const AttentionPlan& plan) {
  return network_.base(hidden, next, own_kv() ? *own_kv() : *no_kv_, plan);
}

FeatureSpeculator::DraftStep CloverSpeculator::draft(const DraftRows& rows) {
  const auto last = static_cast<int64_t>(weights_->steps.size()) - 1;
  const int64_t step = std::min<int64_t>(rows.depth, last);
  const bool merged = rows.depth == 0 && weights_->config.decoder_first;
  const CloverNetwork::Out out = network_.advance(step, rows.before, rows.tokens, merged);
  return {out.state, out.head};
}

}  // namespace clover
