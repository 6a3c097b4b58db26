// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace clover {

// How a sequence's tokens are drawn. Processors run in this order: repetition penalty, presence and
// frequency penalty, logit bias, (minimum tokens), temperature, top-k, top-p, min-p.
struct SamplingParams {
  float temperature = 0.0f;        // 0: greedy; at most 100
  int top_k = 0;                   // 0: off
  float top_p = 1.0f;              // (0, 1]; 1: off
  float min_p = 0.0f;              // [0, 1); 0: off; relative to the most likely token
  float repetition_penalty = 1.0f; // > 0; over prompt and output; 1: off
  float presence_penalty = 0.0f;   // [-2, 2]; over output
  float frequency_penalty = 0.0f;  // [-2, 2]; over output
  std::vector<std::pair<int32_t, float>> logit_bias;  // added to the logit; ±inf allowed
  int64_t min_tokens = 0;          // end-of-text ids are barred before that many output tokens
  uint64_t seed = 0;
};

// Throws Error(kInvalidArgument) naming the parameter, its value and the allowed range (NaN is never
// allowed), or a logit_bias id outside [0, vocab_size).
void validate(const SamplingParams& params, int32_t vocab_size);

struct TokenLogprob {
  int32_t id;
  float logprob;  // natural logarithm
};

// What a draw gives. Log-probabilities are those of the model's own distribution, the log-softmax
// of the raw logits before any processor, as in the OpenAI API's common servers.
struct Draw {
  int32_t id = -1;
  float logprob = 0.0f;
  std::vector<TokenLogprob> top;  // the `top_logprobs` most likely tokens, descending
};

// The state that a sequence's processors need: counts over prompt and output. Only committed tokens
// enter it. A step that verifies several positions draws with `pending` = the drafted tokens between
// the committed ones and the position drawn, so nothing has to be undone when they are rejected.
class SamplerState {
 public:
  SamplerState(SamplingParams params, std::vector<int32_t> eos_ids, int32_t vocab_size);

  // Adds prompt tokens (they count for the repetition penalty only).
  void add_prompt(std::span<const int32_t> ids);
  // Commits one output token.
  void commit(int32_t id);
  int64_t output_tokens() const { return output_tokens_; }
  const SamplingParams& params() const { return params_; }

  // Draws the token of absolute position `position` (index in the whole sequence, prompt included)
  // from `logits` [vocab], which are left unchanged. The token is a function of the processed logits
  // and of noise keyed by (seed, position): the argmax of processed logit + Gumbel noise, which is an
  // exact draw from their softmax; the argmax itself (ties: lowest id) at temperature 0.
  // A row of logits with NaN is an Error. top_logprobs < 0: no log-probabilities are computed.
  Draw draw(std::span<const float> logits, uint64_t position, std::span<const int32_t> pending,
            int top_logprobs) const;

  // The processed logits of a draw, for tests: -inf marks excluded tokens; temperature applied
  // (at temperature 0 the logits before the temperature).
  std::vector<float> process(std::span<const float> logits,
                             std::span<const int32_t> pending) const;

 private:
  SamplingParams params_;
  std::vector<int32_t> eos_ids_;
  int32_t vocab_size_;
  int64_t output_tokens_ = 0;
  std::unordered_map<int32_t, int32_t> prompt_counts_;
  std::unordered_map<int32_t, int32_t> output_counts_;
};

// The Gumbel noise of a token at a position: -log(-log(u)), u uniform in (0, 1) from
// (seed, position, token). Public because a drafter may use the same noise to guess better.
float gumbel_noise(uint64_t seed, uint64_t position, int32_t token);

}  // namespace clover
