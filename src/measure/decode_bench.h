// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/engine.h"
#include "measure/questions.h"
#include "tokenizer/chat_template.h"

namespace clover {

// One way of generating: what drafts, and which trees.
struct DecodeMethod {
  std::string name;
  std::vector<SpeculatorFactory> speculators = {};
  TreePolicy tree = {};
};

struct DecodeBenchOptions {
  std::vector<DecodeMethod> methods = {{"none"}};
  std::vector<int64_t> batches = {1};
  int64_t repeats = 5;
  int64_t max_tokens = 128;
  int64_t prompt_tokens = 0;  // > 0: also time a prompt of that many tokens
  bool ignore_eos = false;
  bool logprobs = false;  // into the hash of what was generated
  SamplingParams sampling;
  EngineOptions engine;
};

// Speed of generation on a question file. Questions go through the engine in groups of the batch
// size; every repeat gives each group to all methods in turn (interleaved, so that a machine that
// drifts disturbs all alike), starting with another method each time. Engines are made anew for
// every repeat: speculators that learn must not have seen the questions.
//
// tokens_per_second counts the passes that only decode: tokens drawn in them over the time they
// take, drafting and sampling included, prompts excluded. `report` is called with the number of
// finished runs and of all. Returns {"results": […], "options": {…}}; a result per method, batch
// and category ("all" first).
Json bench_decode(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer,
                  const std::vector<Question>& questions, const DecodeBenchOptions& options,
                  const std::function<void(int64_t, int64_t)>& report);

}  // namespace clover
