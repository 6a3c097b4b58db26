// SPDX-License-Identifier: Apache-2.0
#include "sampling/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "base/error.h"
#include "base/random.h"
#include "sampling/logprobs.h"
#include "sampling/noise.h"
#include "sampling/processors.h"
#include "sampling/row.h"

namespace clover {
namespace {

// Written so that NaN fails every range.
void check_range(const char* name, float value, bool in_range, const char* range) {
  if (!in_range) fail(ErrorCode::kInvalidArgument, "{} is {}; it must be {}", name, value, range);
}

// Buffers of a draw, kept per thread: a row of a large vocabulary is beyond the size at which the
// allocator maps fresh pages, and touching those costs more than the draw. They carry nothing from
// one draw to the next.
struct Scratch {
  std::vector<float> block_max;
  std::vector<float> logits;
  std::vector<float> logits_block_max;
  TemperedRow row;
};

Scratch& scratch() {
  thread_local Scratch buffers;
  return buffers;
}

// Scans a row as it came from the model and refuses what no draw can be defined on.
RowScan scan_model_row(std::span<const float> logits, int32_t vocab_size,
                       std::vector<float>& block_max) {
  if (static_cast<int64_t>(logits.size()) != vocab_size) {
    fail(ErrorCode::kInvalidArgument, "a row of {} logits was given for a vocabulary of {} tokens",
         logits.size(), vocab_size);
  }
  const RowScan scan = scan_row(logits, block_max);
  if (scan.has_nan) {
    const auto at = std::find_if(logits.begin(), logits.end(), [](float x) { return x != x; });
    fail(ErrorCode::kInvalidArgument,
         "the logit of token {} is NaN: the model's numbers broke down", at - logits.begin());
  }
  if (scan.max == std::numeric_limits<float>::infinity()) {
    fail(ErrorCode::kInvalidArgument,
         "the logit of token {} is infinite: the model's numbers broke down",
         first_equal(logits, block_max, scan.max));
  }
  if (scan.max == kExcluded)
    fail(ErrorCode::kInvalidArgument, "all {} logits are -inf", vocab_size);
  return scan;
}

void check_bias(const std::vector<std::pair<int32_t, float>>& bias, int32_t vocab_size) {
  std::unordered_set<int32_t> seen;
  for (const auto& [id, amount] : bias) {
    if (id < 0 || id >= vocab_size) {
      fail(ErrorCode::kInvalidArgument, "logit_bias names token {}; ids run from 0 to {}", id,
           vocab_size - 1);
    }
    if (std::isnan(amount)) {
      fail(ErrorCode::kInvalidArgument, "logit_bias of token {} is NaN; it must be a number", id);
    }
    if (!seen.insert(id).second) {
      fail(ErrorCode::kInvalidArgument, "logit_bias names token {} twice", id);
    }
  }
}

}  // namespace

void validate(const SamplingParams& p, int32_t vocab_size) {
  if (vocab_size <= 0) {
    fail(ErrorCode::kInvalidArgument, "the vocabulary size is {}; it must be positive", vocab_size);
  }
  const auto within = [](float x, float low, float high) { return x >= low && x <= high; };
  check_range("temperature", p.temperature, within(p.temperature, 0.0f, 100.0f), "in [0, 100]");
  if (p.top_k < 0) {
    fail(ErrorCode::kInvalidArgument, "top_k is {}; it must be 0 (off) or positive", p.top_k);
  }
  check_range("top_p", p.top_p, p.top_p > 0.0f && p.top_p <= 1.0f, "in (0, 1]");
  check_range("min_p", p.min_p, p.min_p >= 0.0f && p.min_p < 1.0f, "in [0, 1)");
  check_range("repetition_penalty", p.repetition_penalty,
              within(p.repetition_penalty, 0.001f, 1000.0f), "in [0.001, 1000]");
  check_range("presence_penalty", p.presence_penalty, within(p.presence_penalty, -2.0f, 2.0f),
              "in [-2, 2]");
  check_range("frequency_penalty", p.frequency_penalty, within(p.frequency_penalty, -2.0f, 2.0f),
              "in [-2, 2]");
  if (p.min_tokens < 0) {
    fail(ErrorCode::kInvalidArgument, "min_tokens is {}; it must not be negative", p.min_tokens);
  }
  check_bias(p.logit_bias, vocab_size);
}

SamplerState::SamplerState(SamplingParams params, std::vector<int32_t> eos_ids, int32_t vocab_size,
                           int32_t usable)
    : params_(std::move(params)),
      eos_ids_(std::move(eos_ids)),
      vocab_size_(vocab_size),
      usable_(std::min(usable, vocab_size)) {
  validate(params_, vocab_size_);
  check_ids(eos_ids_, "end-of-text");
  if (usable_ <= 0) fail(ErrorCode::kInvalidArgument, "no token of the vocabulary has a text");
}

void SamplerState::check_ids(std::span<const int32_t> ids, const char* what) const {
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size_) {
      fail(ErrorCode::kInvalidArgument, "the {} token {} is outside the vocabulary of {} tokens",
           what, id, vocab_size_);
    }
  }
}

bool SamplerState::penalises() const {
  return params_.repetition_penalty != 1.0f || params_.presence_penalty != 0.0f ||
         params_.frequency_penalty != 0.0f;
}

TokenCount& SamplerState::count(int32_t id) {
  const auto [it, is_new] = count_of_.try_emplace(id, counts_.size());
  if (is_new) counts_.push_back({id, 0, 0});
  return counts_[it->second];
}

void SamplerState::add_prompt(std::span<const int32_t> ids) {
  check_ids(ids, "prompt");
  if (params_.repetition_penalty == 1.0f) return;  // nothing else reads the prompt
  for (const int32_t id : ids) ++count(id).prompt;
}

void SamplerState::commit(int32_t id) {
  check_ids({&id, 1}, "committed");
  ++output_tokens_;
  if (penalises()) ++count(id).output;
}

std::vector<TokenCount> SamplerState::counts_with(std::span<const int32_t> pending) const {
  std::vector<TokenCount> counts = counts_;
  std::unordered_map<int32_t, size_t> added;
  for (const int32_t id : pending) {
    const auto known = count_of_.find(id);
    if (known != count_of_.end()) {
      ++counts[known->second].output;
      continue;
    }
    const auto [it, is_new] = added.try_emplace(id, counts.size());
    if (is_new) counts.push_back({id, 0, 0});
    ++counts[it->second].output;
  }
  return counts;
}

bool SamplerState::needs_copy(std::span<const int32_t> pending,
                              std::span<const uint64_t> allowed) const {
  const int64_t output = output_tokens_ + static_cast<int64_t>(pending.size());
  return (penalises() && (!counts_.empty() || !pending.empty())) || !params_.logit_bias.empty() ||
         (output < params_.min_tokens && !eos_ids_.empty()) || !allowed.empty();
}

// The processors before the temperature.
void SamplerState::adjust(std::span<float> logits, std::span<const int32_t> pending,
                          std::span<const uint64_t> allowed) const {
  if (penalises()) {
    const std::vector<TokenCount> merged =
        pending.empty() ? std::vector<TokenCount>{} : counts_with(pending);
    const std::span<const TokenCount> counts = pending.empty() ? counts_ : merged;
    if (params_.repetition_penalty != 1.0f) {
      apply_repetition_penalty(logits, counts, params_.repetition_penalty);
    }
    apply_output_penalties(logits, counts, params_.presence_penalty, params_.frequency_penalty);
  }
  apply_logit_bias(logits, params_.logit_bias);
  if (output_tokens_ + static_cast<int64_t>(pending.size()) < params_.min_tokens) {
    bar_tokens(logits, eos_ids_);
  }
  if (allowed.empty()) return;
  if (static_cast<int64_t>(allowed.size()) * 64 < vocab_size_) {
    fail(ErrorCode::kInvalidArgument, "a mask of {} words is too short for {} tokens",
         allowed.size(), vocab_size_);
  }
  apply_allowed_mask(logits, allowed);
}

Cut SamplerState::truncate(const TemperedRow& row) const {
  Cut cut;
  if (params_.top_k > 0) cut = top_k_cut(row, params_.top_k);
  if (params_.top_p < 1.0f) cut = top_p_cut(row, cut, params_.top_p);
  if (params_.min_p > 0.0f) cut = min_p_cut(cut, params_.min_p);
  return cut;
}

namespace {

// A row on its way through the processors before the temperature.
struct AdjustedRow {
  std::span<const float> logits;
  std::span<const float> block_max;
  float max;
};

// Scans the tokens that have a text.
AdjustedRow scan_usable(std::span<const float> logits, std::vector<float>& block_max) {
  const RowScan scan = scan_row(logits, block_max);
  if (scan.max == kExcluded) {
    fail(ErrorCode::kInvalidArgument,
         "no token is left to draw: the model, logit_bias, min_tokens and the allowed tokens "
         "exclude all");
  }
  return {logits, block_max, scan.max};
}

AdjustedRow rescan(std::span<float> logits, std::vector<float>& block_max) {
  const AdjustedRow row = scan_usable(logits, block_max);
  if (row.max != std::numeric_limits<float>::infinity()) return row;
  resolve_forced(logits, row.max);
  return scan_usable(logits, block_max);
}

}  // namespace

Draw score(std::span<const float> logits, int32_t id, int top_logprobs) {
  if (id < 0 || static_cast<size_t>(id) >= logits.size())
    fail(ErrorCode::kInvalidArgument, "token id {} is outside the row of {}", id, logits.size());
  std::vector<float>& block_max = scratch().block_max;
  const RowScan raw = scan_model_row(logits, static_cast<int32_t>(logits.size()), block_max);
  Draw result;
  result.id = id;
  fill_logprobs(logits, block_max, raw.max, top_logprobs, result);
  return result;
}

Draw SamplerState::draw(std::span<const float> logits, uint64_t position,
                        std::span<const int32_t> pending, int top_logprobs,
                        std::span<const uint64_t> allowed) const {
  check_ids(pending, "pending");
  Scratch& s = scratch();
  const RowScan raw = scan_model_row(logits, vocab_size_, s.block_max);
  AdjustedRow row{logits, s.block_max, raw.max};
  const auto usable = static_cast<size_t>(usable_);
  if (needs_copy(pending, allowed)) {
    s.logits.assign(logits.begin(), logits.end());
    adjust(s.logits, pending, allowed);
    row = rescan(std::span(s.logits).first(usable), s.logits_block_max);
  } else if (usable_ < vocab_size_) {
    row = scan_usable(logits.first(usable), s.logits_block_max);
  }
  Draw result;
  if (params_.temperature == 0.0f) {
    result.id = first_equal(row.logits, row.block_max, row.max);
  } else {
    apply_temperature(row.logits, row.block_max, row.max, params_.temperature, s.row);
    result.id = draw_gumbel(s.row, truncate(s.row), stream_key(params_.seed, position));
  }
  if (top_logprobs >= 0) fill_logprobs(logits, s.block_max, raw.max, top_logprobs, result);
  return result;
}

std::vector<float> SamplerState::process(std::span<const float> logits,
                                         std::span<const int32_t> pending,
                                         std::span<const uint64_t> allowed) const {
  check_ids(pending, "pending");
  std::vector<float> block_max;
  scan_model_row(logits, vocab_size_, block_max);
  std::vector<float> adjusted(logits.begin(), logits.end());
  adjust(adjusted, pending, allowed);
  const auto usable = static_cast<size_t>(usable_);
  const AdjustedRow row = rescan(std::span(adjusted).first(usable), block_max);
  std::fill(adjusted.begin() + usable_, adjusted.end(), kExcluded);
  if (params_.temperature == 0.0f) return adjusted;
  TemperedRow tempered;
  apply_temperature(row.logits, row.block_max, row.max, params_.temperature, tempered);
  const Cut cut = truncate(tempered);
  std::vector<float> out(tempered.values.begin(), tempered.values.begin() + tempered.size);
  for (int64_t i = 0; i < tempered.size; ++i) {
    if (!cut.keeps(out[i], i)) out[i] = kExcluded;
  }
  out.resize(adjusted.size(), kExcluded);
  return out;
}

float gumbel_noise(uint64_t seed, uint64_t position, int32_t token) {
  return gumbel_of_token(stream_key(seed, position), static_cast<uint32_t>(token));
}

}  // namespace clover
