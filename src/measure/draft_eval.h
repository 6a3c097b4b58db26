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
  std::vector<int64_t> depths = {};  // also: every size with drafts no deeper than each of these
  int64_t max_tokens = 128;
  int64_t sequences = 8;  // at once
  SamplingParams sampling;
  EngineOptions engine;  // with the speculators to be judged
};

// How good drafts are, whatever they cost: generates answers with trees of fixed sizes and counts.
// Every size starts with speculators that have seen nothing. The turns of a question follow each
// other, each behind the answers before. Returns {"trees": [{nodes, depth (null: no limit),
// extra_tokens_per_step, drafted_per_step, acceptance_rate, per_depth[], recall[], by_category{}}],
// "calibration": [{low, high, count, predicted, observed}], "ranks": [{depth, parent_rank, asked,
// at_rank[]}], "costly": whether drafting computes passes of its own, "options": {…}}. recall[d]:
// share of the steps whose tree held the first d + 1 tokens that came. calibration and ranks are
// those of the last size of tree: what the planner predicted for candidates and how many of them
// were right; and where the token that came stood among the candidates of a depth (from 1), by the
// rank of the node before it (at_rank[0]: it was the likeliest; the last: that rank or a later one;
// not in it: no candidate). Error(kInvalidArgument) without speculators, sizes or questions.
Json eval_drafts(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer,
                 const std::vector<Question>& questions, const DraftEvalOptions& options,
                 const std::function<void(int64_t, int64_t)>& report);

// The same for prompts as the model reads them.
Json eval_drafts(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer,
                 const std::vector<Prompt>& prompts, const DraftEvalOptions& options,
                 const std::function<void(int64_t, int64_t)>& report);

}  // namespace clover
