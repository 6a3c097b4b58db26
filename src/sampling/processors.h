// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sampling/row.h"
#include "sampling/sampling.h"

namespace clover {

// The processors of a draw, in the order in which SamplerState runs them. Those before the
// temperature change logits [vocab] in place; those after it tighten a Cut of a TemperedRow. Ids
// must be in range: SamplerState checks them.

// Repetition penalty: for every token of prompt or output, a positive logit is divided by it, any
// other multiplied. Results that overflow become the greatest finite value of their sign.
void apply_repetition_penalty(std::span<float> logits, std::span<const TokenCount> counts,
                              float penalty);

// For every token of the output: logit -= presence + frequency * count.
void apply_output_penalties(std::span<float> logits, std::span<const TokenCount> counts,
                            float presence, float frequency);

// Adds finite biases (an excluded token stays excluded; overflow as above). -inf excludes a token,
// +inf makes its logit +inf even where it was excluded: see resolve_forced.
void apply_logit_bias(std::span<float> logits, std::span<const std::pair<int32_t, float>> bias);

// Excludes the given tokens.
void bar_tokens(std::span<float> logits, std::span<const int32_t> ids);

// Excludes the tokens whose bit is 0: token t is bit t % 64 of word t / 64.
void apply_allowed_mask(std::span<float> logits, std::span<const uint64_t> allowed);

// When some logits are +inf, only they can be drawn, each with equal chance: they become 0 and all
// others excluded. Otherwise nothing changes. `max` is the greatest logit.
void resolve_forced(std::span<float> logits, float max);

// Fills `row` with (logit - max) / temperature, where max, finite, is the greatest of `logits` and
// `block_max` belongs to them. temperature > 0; below 1e-30 it counts as 1e-30.
void apply_temperature(std::span<const float> logits, std::span<const float> block_max, float max,
                       float temperature, TemperedRow& row);

// Keeps the k most likely tokens; k ≥ 1.
Cut top_k_cut(const TemperedRow& row, int64_t k);

// Keeps the smallest set of most likely tokens, among those that `cut` keeps, whose share of their
// probability is at least top_p, in (0, 1). A share within 1e-6 of top_p counts as reached: floats
// cannot tell 0.6 from the sum of six tenths.
Cut top_p_cut(const TemperedRow& row, Cut cut, float top_p);

// Keeps the tokens, among those that `cut` keeps, with probability ≥ min_p * that of the most
// likely one (within 1e-6), whose value in a TemperedRow is 0; min_p in (0, 1).
Cut min_p_cut(Cut cut, float min_p);

// The argmax of value + Gumbel noise under `key` over the tokens that `cut` keeps (ties: lowest
// id): an exact draw from their softmax.
int32_t draw_gumbel(const TemperedRow& row, Cut cut, uint64_t key);

}  // namespace clover
