// SPDX-License-Identifier: Apache-2.0
#include "engine/report.h"

#include <algorithm>

namespace clover {
namespace {

constexpr double kLeastLogprob = -9999.0;

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0.0; }

Json token_json(TokenId id, float logprob, const Tokenizer& tokenizer) {
  const std::string_view text = tokenizer.token_bytes(id);
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", std::string(text)},
          {"logprob", logprob_number(logprob)},
          {"bytes", std::move(bytes)}};
}

}  // namespace

double logprob_number(float logprob) {
  return std::max(static_cast<double>(logprob), kLeastLogprob);
}

double decode_speed(const RequestStats& stats) {
  if (stats.completion_tokens < 2) return 0.0;
  return ratio(static_cast<double>(stats.completion_tokens - 1),
               (stats.total_ms - stats.ttft_ms) / 1000.0);
}

Json usage_json(const RequestStats& stats) {
  return {{"prompt_tokens", stats.prompt_tokens}, {"completion_tokens", stats.completion_tokens}};
}

Json speculation_json(const RequestStats& stats, const std::string& speculator) {
  const double extra =
      ratio(static_cast<double>(stats.accepted), static_cast<double>(stats.target_steps));
  Json depths = Json::array();
  for (size_t d = 0; d < stats.drafted_at_depth.size(); ++d) {
    const int64_t accepted =
        d < stats.accepted_at_depth.size() ? stats.accepted_at_depth[d] : int64_t{0};
    depths.push_back(
        ratio(static_cast<double>(accepted), static_cast<double>(stats.drafted_at_depth[d])));
  }
  return {{"speculator", speculator},
          {"target_steps", stats.target_steps},
          {"drafted", stats.drafted},
          {"accepted", stats.accepted},
          {"extra_tokens_per_step", extra},
          {"tokens_per_step", stats.target_steps > 0 ? 1.0 + extra : 0.0},
          {"per_depth_acceptance", std::move(depths)}};
}

Json timing_json(const RequestStats& stats, double load_ms) {
  return {{"load", load_ms},         {"ttft", stats.ttft_ms},     {"prefill", stats.prefill_ms},
          {"draft", stats.draft_ms}, {"verify", stats.verify_ms}, {"sample", stats.sample_ms},
          {"other", stats.other_ms}, {"total", stats.total_ms}};
}

Json logprobs_json(const std::vector<OutputToken>& tokens, const Tokenizer& tokenizer) {
  Json content = Json::array();
  for (const OutputToken& token : tokens) {
    Json entry = token_json(token.id, token.logprob, tokenizer);
    Json top = Json::array();
    for (const TokenLogprob& other : token.top)
      top.push_back(token_json(other.id, other.logprob, tokenizer));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}};
}

}  // namespace clover
