// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "engine/request.h"
#include "tokenizer/tokenizer.h"

namespace clover {

// Tokens per second after the first token; 0 for answers of fewer than two.
double decode_speed(const RequestStats& stats);

// The objects of a result file that describe one answer.
Json usage_json(const RequestStats& stats);
Json speculation_json(const RequestStats& stats, const std::string& speculator);
Json timing_json(const RequestStats& stats, double load_ms);
// A log-probability as JSON has it.
double logprob_number(float logprob);
// Log-probabilities in the OpenAI API's shape: {"content": [{token, logprob, bytes,
// top_logprobs}]}. Minus infinity, which JSON lacks, becomes -9999 as there.
Json logprobs_json(const std::vector<OutputToken>& tokens, const Tokenizer& tokenizer);

}  // namespace clover
