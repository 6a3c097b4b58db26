// SPDX-License-Identifier: Apache-2.0
#include "engine/sequence.h"

#include <algorithm>
#include <utility>

#include "speculation/speculators/prediction.h"

namespace clover {
namespace {

std::vector<int32_t> usable_eos(const Tokenizer& tokenizer, bool ignore, int32_t vocab) {
  std::vector<int32_t> ids;
  if (ignore) return ids;
  for (const TokenId id : tokenizer.eos_ids())
    if (id >= 0 && id < vocab) ids.push_back(id);
  return ids;
}

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "";
}

Sequence::Sequence(int64_t id, Request request, const Tokenizer& tokenizer, int64_t context,
                   int32_t vocab)
    : id_(id),
      request_(std::move(request)),
      tokenizer_(tokenizer),
      sampler_(request_.sampling, usable_eos(tokenizer, request_.ignore_eos, vocab), vocab,
               tokenizer.vocab_size()),
      output_(tokenizer, request_.stop),
      tokens_(request_.prompt),
      submitted_(Clock::now()) {
  sampler_.add_prompt(tokens_);
  if (request_.constraint) constraint_ = request_.constraint->start();
  stats_.prompt_tokens = static_cast<int64_t>(tokens_.size());
  read_end_ = stats_.prompt_tokens;
  // The last token drawn needs no slot: it is never fed back.
  max_tokens_ = context - stats_.prompt_tokens + 1;
  if (request_.max_tokens >= 0) max_tokens_ = std::min(max_tokens_, request_.max_tokens);
}

void Sequence::score_next(std::span<const float> logits) {
  const TokenId id = tokens_[static_cast<size_t>(++scored_)];
  Draw scored = score(logits, id, request_.top_logprobs);
  scores_.push_back({id, scored.logprob, std::move(scored.top)});
}

void Sequence::restart() {
  read_ = 0;
  read_end_ = std::ssize(tokens_);
  ++stats_.preemptions;
}

void Sequence::start() {
  started_ = true;
  stats_.queue_ms = ms_since(submitted_);
}

bool Sequence::is_eos(TokenId token) const {
  const auto& ids = tokenizer_.eos_ids();
  return !request_.ignore_eos && std::binary_search(ids.begin(), ids.end(), token);
}

Draw Sequence::draw(std::span<const float> logits, int32_t depth,
                    std::span<const int32_t> pending) const {
  const auto position = static_cast<uint64_t>(static_cast<int64_t>(tokens_.size()) + depth);
  if (!request_.constraint) return sampler_.draw(logits, position, pending, request_.top_logprobs);
  std::vector<uint64_t> allowed;
  request_.constraint->allowed(constraint_after(pending), allowed);
  return sampler_.draw(logits, position, pending, request_.top_logprobs, allowed);
}

// Where the constraint is when these tokens follow; nothing may follow a token that it forbids.
ConstraintState Sequence::constraint_after(std::span<const TokenId> tokens) const {
  ConstraintState state = constraint_;
  for (const TokenId token : tokens)
    if (!request_.constraint->advance(state, token)) return {};
  return state;
}

bool Sequence::may_follow(std::span<const TokenId> drafts, TokenId token) const {
  if (!request_.constraint) return true;
  ConstraintState state = constraint_after(drafts);
  return request_.constraint->advance(state, token);
}

bool Sequence::ends(TokenId token, int64_t drawn_in_step) const {
  return is_eos(token) || drawn_ + drawn_in_step >= max_tokens_;
}

void Sequence::count(const WalkResult& result, const TokenTree& tree) {
  const auto depth = static_cast<size_t>(*std::max_element(tree.depths.begin(), tree.depths.end()));
  const size_t accepted = result.path.size() - 1;
  ++stats_.target_steps;
  stats_.drafted += tree.size() - 1;
  stats_.accepted += static_cast<int64_t>(accepted);
  if (stats_.drafted_at_depth.size() < depth) {
    stats_.drafted_at_depth.resize(depth);
    stats_.accepted_at_depth.resize(depth);
  }
  for (size_t d = 0; d < depth; ++d) ++stats_.drafted_at_depth[d];
  for (size_t d = 0; d < accepted; ++d) ++stats_.accepted_at_depth[d];
}

void Sequence::accept(const WalkResult& result, const TokenTree& tree) {
  if (drawn_ == 0) stats_.ttft_ms = ms_since(submitted_);
  count(result, tree);
  for (size_t i = 0; i < result.draws.size(); ++i) {
    const Draw& draw = result.draws[i];
    tokens_.push_back(draw.id);
    sampler_.commit(draw.id);
    if (request_.constraint) request_.constraint->advance(constraint_, draw.id);
    ++drawn_;
    OutputToken token{draw.id, draw.logprob, draw.top, result.drafted[i] != 0};
    const bool eos = is_eos(draw.id);
    const bool stopped = output_.push(std::move(token), eos);
    if (eos || stopped) {
      finish(FinishReason::kStop);
      return;
    }
    if (drawn_ >= max_tokens_) {
      finish(FinishReason::kLength);
      return;
    }
  }
  send(false);
}

void Sequence::finish(FinishReason reason, const std::string& error) {
  if (finished()) return;
  finish_ = reason;
  error_ = error;
  send(true);
}

void Sequence::send(bool all) {
  Output output = output_.take(all);
  output.prompt = std::exchange(scores_, {});
  stats_.completion_tokens = output_.tokens();
  output.finish = finish_;
  output.error = error_;
  stats_.total_ms = ms_since(submitted_);
  if (all) {
    stats_.settle();
    const std::span<const TokenId> known = tokens_;
    stats_.predicted_said = predicted_said(
        request_.prediction, known.subspan(static_cast<size_t>(stats_.prompt_tokens),
                                           static_cast<size_t>(stats_.completion_tokens)));
    output.stats = &stats_;
  }
  const bool news = !output.text.empty() || !output.tokens.empty() || !output.prompt.empty() || all;
  if (!news || !request_.on_output || failure_) return;
  try {
    request_.on_output(output);
  } catch (...) {
    failure_ = std::current_exception();
    finish_ = FinishReason::kError;
  }
}

}  // namespace clover
