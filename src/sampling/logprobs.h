// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "sampling/row.h"
#include "sampling/sampling.h"

namespace clover {

// log(sum(exp(logits))): what turns a logit into a log-probability. `max`, finite, is the greatest
// logit, `block_max` those of the blocks.
double log_sum_exp(std::span<const float> logits, std::span<const float> block_max, float max);

// Fills `draw.logprob` of draw.id and, for n > 0, the n most likely tokens in `draw.top`.
void fill_logprobs(std::span<const float> logits, std::span<const float> block_max, float max,
                   int n, Draw& draw);

}  // namespace clover
