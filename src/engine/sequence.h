// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/request.h"
#include "engine/text_output.h"
#include "sampling/sampling.h"
#include "speculation/verification/walk.h"
#include "tokenizer/tokenizer.h"

namespace clover {

// A request while it runs: its tokens, its sampler and how far its keys and values reach. Holds
// nothing of any speculator.
class Sequence {
 public:
  Sequence(int64_t id, Request request, const Tokenizer& tokenizer, int64_t context, int32_t vocab);

  int64_t id() const { return id_; }
  // Prompt and output; the last output token's key and value are not stored yet.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  int64_t prompt_tokens() const { return stats_.prompt_tokens; }
  // Tokens whose keys and values have to be stored before one is drawn, not stored yet: of the
  // prompt or, after restart(), of everything so far.
  int64_t unread() const { return std::max<int64_t>(read_end_ - read_, 0); }
  bool reading() const { return read_ < read_end_; }
  void mark_read(int64_t count) { read_ += count; }
  // Whether tokens of the prompt wait for their log-probabilities.
  bool scoring() const { return request_.prompt_logprobs && scored_ + 1 < stats_.prompt_tokens; }
  // Whether the row of token `index` has to give the log-probability of the next one.
  bool wants_score(int64_t index) const {
    return scoring() && index >= scored_ && index + 1 < stats_.prompt_tokens;
  }
  // First tokens whose keys and values may be another sequence's: the last token's row is needed.
  int64_t adoptable() const { return scoring() ? scored_ : std::ssize(tokens_) - 1; }
  // Takes the next prompt token's log-probability from the row before it.
  void score_next(std::span<const float> logits);
  void send_scores() { send(false); }
  // All keys and values are lost and have to be computed again.
  void restart();
  // Runs for the first time.
  void start();
  bool started() const { return started_; }
  // Tokens that may still be drawn.
  int64_t remaining() const { return max_tokens_ - drawn_; }
  bool finished() const { return finish_ != FinishReason::kNone; }

  // Draws the token after `tree` node with this sequence's sampler.
  Draw draw(std::span<const float> logits, int32_t depth, std::span<const int32_t> pending) const;
  // Whether the constraint allows `token` after these drafts behind the last token.
  bool may_follow(std::span<const TokenId> drafts, TokenId token) const;
  bool ends(TokenId token, int64_t drawn_in_step) const;
  // Takes over the tokens of a verified step and sends output.
  void accept(const WalkResult& result, const TokenTree& tree);
  // Ends the sequence and sends what is left.
  void finish(FinishReason reason, const std::string& error = {});
  RequestStats& stats() { return stats_; }
  const Request& request() const { return request_; }
  // What on_output threw; null when nothing.
  std::exception_ptr failure() const { return failure_; }

 private:
  bool is_eos(TokenId token) const;
  ConstraintState constraint_after(std::span<const TokenId> tokens) const;
  void send(bool all);
  void count(const WalkResult& result, const TokenTree& tree);

  int64_t id_;
  Request request_;
  const Tokenizer& tokenizer_;
  SamplerState sampler_;
  ConstraintState constraint_;  // of the tokens committed
  TextOutput output_;
  std::vector<TokenId> tokens_;
  int64_t read_ = 0;
  int64_t read_end_ = 0;
  int64_t scored_ = 0;  // prompt tokens, but for the first, whose log-probabilities are known
  std::vector<OutputToken> scores_;  // of them, those not sent yet
  bool started_ = false;
  int64_t drawn_ = 0;
  int64_t max_tokens_ = 0;
  FinishReason finish_ = FinishReason::kNone;
  std::string error_;
  std::exception_ptr failure_;
  RequestStats stats_;
  Clock::time_point submitted_;
};

}  // namespace clover
