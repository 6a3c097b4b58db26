// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/json.h"
#include "engine/engine.h"
#include "measure/prompts.h"
#include "measure/questions.h"

namespace clover {

struct DraftEvalOptions {
  std::vector<int64_t> nodes = {1, 2, 4, 8, 16, 25, 32};  // sizes of tree
  int64_t max_tokens = 128;
  int64_t sequences = 8;  // at once
  SamplingParams sampling;
  EngineOptions engine;  // with the speculators to be judged
};

// How good drafts are, whatever they cost: generates answers with trees of fixed sizes and counts.
// Every size starts with speculators that have seen nothing. Returns {"trees": [{nodes,
// extra_tokens_per_step, drafted_per_step, acceptance_rate, per_depth[], by_category{}}],
// "calibration": [{low, high, count, predicted, observed}], "options": {…}}; the calibration is
// that of the largest tree: what the planner predicted for candidates and how many of them were
// right. Error(kInvalidArgument) without speculators, sizes or questions.
Json eval_drafts(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer,
                 const std::vector<Question>& questions, const DraftEvalOptions& options,
                 const std::function<void(int64_t, int64_t)>& report);

// The same for prompts as the model reads them.
Json eval_drafts(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer,
                 const std::vector<Prompt>& prompts, const DraftEvalOptions& options,
                 const std::function<void(int64_t, int64_t)>& report);

}  // namespace clover
