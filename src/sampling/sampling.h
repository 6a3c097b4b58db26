// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace clover {

struct TemperedRow;
struct Cut;

// How often a token occurs in a sequence.
struct TokenCount {
  int32_t id;
  int32_t prompt;
  int32_t output;
};

// How a sequence's tokens are drawn. Processors run in this order: repetition penalty, presence and
// frequency penalty, logit bias, (minimum tokens, allowed mask), temperature, top-k, top-p, min-p;
// each works on what the one before it left. Ties at a boundary keep the lower id.
struct SamplingParams {
  float temperature = 0.0f;  // 0: greedy; at most 100
  int32_t top_k = 0;         // 0: off
  float top_p = 1.0f;        // (0, 1]; 1: off
  float min_p = 0.0f;        // [0, 1); 0: off; relative to the most likely token
  // Over prompt and output: positive logits are divided by it, others multiplied; [0.001, 1000].
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;   // [-2, 2]; over output
  float frequency_penalty = 0.0f;  // [-2, 2]; over output
  // Added to the logit, each id once. -inf excludes the token; tokens with +inf exclude all others
  // and are drawn with equal chances (greedy: the lowest id).
  std::vector<std::pair<int32_t, float>> logit_bias = {};
  int64_t min_tokens = 0;  // end-of-text ids are barred before that many output tokens
  uint64_t seed = 0;
};

// Throws Error(kInvalidArgument) naming the parameter, its value and the allowed range (NaN is
// never allowed), or a logit_bias id outside [0, vocab_size) or given twice.
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
  // The `top_logprobs` most likely tokens, descending (ties: lower id first); fewer where the model
  // gives fewer a chance at all. `id` need not be among them.
  std::vector<TokenLogprob> top;
};

// The log-probability of a token that was not drawn but given, as Draw has it of a drawn one.
// Error(kInvalidArgument): an id outside the row; a row as SamplerState::draw refuses it.
Draw score(std::span<const float> logits, int32_t id, int top_logprobs);

// The state that a sequence's processors need: counts over prompt and output. Only committed tokens
// enter it. A step that verifies several positions draws with `pending` = the drafted tokens
// between the committed ones and the position drawn, which count as output, so nothing has to be
// undone when they are rejected. Const methods may be called from several threads at once.
class SamplerState {
 public:
  // `usable`: ids from there on have no text (models pad their vocabularies) and are never drawn,
  // whatever their logits and biases. Error(kInvalidArgument) when the parameters are invalid, an
  // end-of-text id is out of range or no id is usable.
  SamplerState(SamplingParams params, std::vector<int32_t> eos_ids, int32_t vocab_size,
               int32_t usable = std::numeric_limits<int32_t>::max());

  // Adds prompt tokens (they count for the repetition penalty only).
  void add_prompt(std::span<const int32_t> ids);
  // Commits one output token.
  void commit(int32_t id);
  int64_t output_tokens() const { return output_tokens_; }
  const SamplingParams& params() const { return params_; }

  // Draws the token of absolute position `position` (index in the whole sequence, prompt included)
  // from `logits` [vocab], which are left unchanged. The token is a function of the processed
  // logits and of noise keyed by (seed, position): the argmax of processed logit + Gumbel noise,
  // which is an exact draw from their softmax; the argmax itself (ties: lowest id) at temperature
  // 0. top_logprobs < 0: no log-probabilities are computed; more than the vocabulary means all of
  // it. `allowed`, when not empty, is a bit per token (token t: bit t % 64 of word t / 64), at
  // least ceil(vocab / 64) words; a token whose bit is 0 cannot be drawn, whatever its bias.
  // Error(kInvalidArgument): a row of the wrong size, with NaN or +inf, or all -inf; an id of
  // `pending` out of range; a mask too short; no token left to draw.
  Draw draw(std::span<const float> logits, uint64_t position, std::span<const int32_t> pending,
            int top_logprobs, std::span<const uint64_t> allowed = {}) const;

  // The processed logits of a draw: -inf marks excluded tokens; temperature applied and shifted so
  // that the greatest is 0 (at temperature 0: the logits before the temperature, not shifted).
  std::vector<float> process(std::span<const float> logits, std::span<const int32_t> pending,
                             std::span<const uint64_t> allowed = {}) const;

 private:
  bool penalises() const;
  bool needs_copy(std::span<const int32_t> pending, std::span<const uint64_t> allowed) const;
  TokenCount& count(int32_t id);
  void check_ids(std::span<const int32_t> ids, const char* what) const;
  void adjust(std::span<float> logits, std::span<const int32_t> pending,
              std::span<const uint64_t> allowed) const;
  std::vector<TokenCount> counts_with(std::span<const int32_t> pending) const;
  Cut truncate(const TemperedRow& row) const;

  SamplingParams params_;
  std::vector<int32_t> eos_ids_;
  int32_t vocab_size_;
  int32_t usable_;  // <= vocab_size_
  int64_t output_tokens_ = 0;
  std::vector<TokenCount> counts_;                // of the tokens that occur
  std::unordered_map<int32_t, size_t> count_of_;  // id -> index into counts_
};

// The Gumbel noise of a token ≥ 0 at a position: -log(-log(u)), u uniform in (0, 1), a function of
// (seed, position, token) alone, independent between any two of them, between -3.14 and 27.73
// (sampling/noise.h says how it is made). Bit for bit what draw() adds to a processed logit. Public
// because a drafter may use the same noise to guess better.
float gumbel_noise(uint64_t seed, uint64_t position, int32_t token);

}  // namespace clover
