// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/constraint.h"
#include "sampling/sampling.h"
#include "tokenizer/tokenizer.h"

namespace clover {

enum class FinishReason { kNone, kStop, kLength, kCancelled, kError };
std::string_view finish_reason_name(FinishReason reason);  // "", "stop", "length", …

// One token of an answer.
struct OutputToken {
  TokenId id = -1;
  float logprob = 0.0f;  // valid where the request asked for log-probabilities
  std::vector<TokenLogprob> top = {};
  bool drafted = false;    // a speculator had proposed it
  int64_t text_bytes = 0;  // of Output::text, those that came with this token
};

// What became known in one step.
struct Output {
  std::string text;                 // whole UTF-8 characters, never part of a stop string
  std::vector<OutputToken> tokens;  // empty while text is held back for a stop string
  // For Request::prompt_logprobs: the next tokens of the prompt, from its second one on (nothing
  // says the first). All of them come before any of `tokens`.
  std::vector<OutputToken> prompt = {};
  FinishReason finish = FinishReason::kNone;
  std::string error;                           // for kError
  const struct RequestStats* stats = nullptr;  // with finish; valid during the call
};

struct Request {
  std::vector<TokenId> prompt;  // not empty, no longer than the context
  SamplingParams sampling;
  int64_t max_tokens = -1;        // ≥ 0; -1: up to the context
  std::vector<std::string> stop;  // stop strings: valid UTF-8, none empty
  int top_logprobs = -1;          // -1: no log-probabilities
  // The prompt's tokens get log-probabilities as well. Costs the prefix cache's help and, for every
  // token of the prompt, a row of the LM head.
  bool prompt_logprobs = false;
  bool ignore_eos = false;
  // The texts that the answer may be; null: any. Excludes ignore_eos and min_tokens.
  std::shared_ptr<const Constraint> constraint = nullptr;
  // What the answer will likely be, for drafts: ids of the vocabulary, no more than the context
  // holds. Needs EngineOptions::predictions.
  std::vector<TokenId> prediction = {};
  int64_t max_drafts = -1;  // drafted tokens of one step, at most; 0: no speculation; -1: no limit
  // Called from Engine::step with every piece of output; the last has finish set. Must not call the
  // engine back except cancel(). What it throws ends this request (it is not called again), and
  // comes out of Engine::step once the step is done for all others.
  std::function<void(const Output&)> on_output;
};

// Per-request statistics.
struct RequestStats {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;      // of the prompt, found in the prefix cache
  int64_t preemptions = 0;        // times that it had to give its KV memory to earlier requests
  int64_t completion_tokens = 0;  // delivered ids, the end-of-text token included
  int64_t target_steps = 0;       // passes that produced output tokens
  int64_t drafted = 0;
  int64_t accepted = 0;
  int64_t predicted_said = 0;              // tokens of the prediction that the answer has said
  std::vector<int64_t> drafted_at_depth;   // steps that had a node at depth d (0: first draft)
  std::vector<int64_t> accepted_at_depth;  // steps that accepted one there
  double queue_ms = 0;                     // submit to the first step with it
  double ttft_ms = 0;                      // submit to first token
  double prefill_ms = 0;  // passes that only read the prompt, up to the first token
  double draft_ms = 0;
  double verify_ms = 0;
  double sample_ms = 0;
  double other_ms = 0;
  double total_ms = 0;  // submit to last token
  // Sets other_ms to what the components leave of the total.
  void settle() {
    other_ms = std::max(0.0, total_ms - prefill_ms - draft_ms - verify_ms - sample_ms);
  }
};

}  // namespace clover
