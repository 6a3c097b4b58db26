// SPDX-License-Identifier: Apache-2.0
#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace clover {
namespace {

constexpr double kMsPerSecond = 1000.0;

std::vector<double> latency_bounds() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120};
}

std::vector<double> component_bounds() {
  return {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1};
}

void write_head(const std::string& name, const char* type, const std::string& help,
                std::string& out) {
  fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

template <typename Value>
void write_one(const std::string& name, const char* type, const std::string& help, Value value,
               std::string& out) {
  write_head(name, type, help, out);
  fmt::format_to(std::back_inserter(out), "{} {}\n", name, value);
}

}  // namespace

MetricHistogram::MetricHistogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

void MetricHistogram::observe(double value, int64_t times) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<size_t>(at)] += times;
  count_ += times;
  sum_ += value * static_cast<double>(times);
}

void MetricHistogram::write(const std::string& name, const std::string& help,
                            std::string& out) const {
  write_head(name, "histogram", help, out);
  int64_t below = 0;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    below += counts_[i];
    fmt::format_to(std::back_inserter(out), "{}_bucket{{le=\"{}\"}} {}\n", name, bounds_[i], below);
  }
  fmt::format_to(std::back_inserter(out), "{}_bucket{{le=\"+Inf\"}} {}\n{}_sum {}\n{}_count {}\n",
                 name, count_, name, sum_, name, count_);
}

ServerMetrics::ServerMetrics()
    : ttft_(latency_bounds()),
      token_(latency_bounds()),
      request_(latency_bounds()),
      step_(component_bounds()),
      draft_(component_bounds()),
      verify_(component_bounds()),
      sample_(component_bounds()) {}

void ServerMetrics::step(const EngineStats& stats, double ms) {
  const std::lock_guard lock(mutex_);
  if (stats.steps > last_.steps) {
    step_.observe(ms / kMsPerSecond);
    draft_.observe((stats.draft_ms - last_.draft_ms) / kMsPerSecond);
    verify_.observe((stats.verify_ms - last_.verify_ms) / kMsPerSecond);
    sample_.observe((stats.sample_ms - last_.sample_ms) / kMsPerSecond);
  }
  last_ = stats;
}

void ServerMetrics::output(RequestTimes& times, const Output& output) {
  const auto now = Clock::now();
  const auto seconds = [now](Clock::time_point from) {
    return std::chrono::duration<double>(now - from).count();
  };
  const auto tokens = static_cast<int64_t>(output.tokens.size());
  const std::lock_guard lock(mutex_);
  // The tokens of a step come together: each has its share of the time since the step before.
  if (tokens > 0 && times.answered)
    token_.observe(seconds(times.last) / static_cast<double>(tokens), tokens);
  if (tokens > 0) {
    if (!times.answered) ttft_.observe(seconds(times.begin));
    times.answered = true;
    times.last = now;
  }
  if (output.finish == FinishReason::kNone) return;
  request_.observe(seconds(times.begin));
  ++finished_[std::string(finish_reason_name(output.finish))];
  if (output.stats == nullptr) return;
  prompt_tokens_ += output.stats->prompt_tokens;
  completion_tokens_ += output.stats->completion_tokens;
}

void ServerMetrics::response(int status) {
  const std::lock_guard lock(mutex_);
  ++responses_[status];
}

std::string ServerMetrics::text(const EngineStats& stats, int64_t connections) const {
  const std::lock_guard lock(mutex_);
  std::string out;
  const auto counter = [&](const char* name, const char* help, int64_t value) {
    write_one(std::string("clover:") + name, "counter", help, value, out);
  };
  const auto gauge = [&](const char* name, const char* help, auto value) {
    write_one(std::string("clover:") + name, "gauge", help, value, out);
  };
  gauge("num_requests_running", "Requests that take part in steps.", stats.running);
  gauge("num_requests_waiting", "Requests that wait for a place or for memory.", stats.waiting);
  const int64_t used = stats.kv_blocks - stats.kv_blocks_free - stats.kv_blocks_cached;
  gauge(
      "kv_cache_usage_perc", "Share of KV blocks in use by requests, 0 to 1.",
      stats.kv_blocks > 0 ? static_cast<double>(used) / static_cast<double>(stats.kv_blocks) : 0.0);
  gauge("kv_blocks", "KV blocks in all.", stats.kv_blocks);
  gauge("kv_blocks_free", "KV blocks that hold nothing.", stats.kv_blocks_free);
  gauge("kv_blocks_cached", "KV blocks kept for requests to come.", stats.kv_blocks_cached);
  gauge("num_connections", "Open HTTP connections.", connections);
  counter("spec_decode_num_drafts_total", "Steps of a request that checked drafts.",
          stats.draft_trees);
  counter("spec_decode_num_draft_tokens_total", "Drafted tokens that were checked.", stats.drafted);
  counter("spec_decode_num_accepted_tokens_total", "Drafted tokens that became text.",
          stats.accepted);
  const std::string positions = "clover:spec_decode_num_accepted_tokens_per_pos_total";
  write_head(positions, "counter", "Accepted drafts by their place behind the root.", out);
  for (size_t d = 0; d < stats.accepted_at_depth.size(); ++d)
    fmt::format_to(std::back_inserter(out), "{}{{position=\"{}\"}} {}\n", positions, d,
                   stats.accepted_at_depth[d]);
  counter("engine_steps_total", "Passes of the model.", stats.steps);
  counter("num_preemptions_total", "Requests that gave their memory back for a while.",
          stats.preemptions);
  counter("prefix_cache_hit_tokens_total", "Prompt tokens found in the prefix cache.",
          stats.cached_tokens);
  counter("prompt_tokens_total", "Prompt tokens of finished requests.", prompt_tokens_);
  counter("generation_tokens_total", "Answer tokens of finished requests.", completion_tokens_);
  const std::string finished = "clover:request_success_total";
  write_head(finished, "counter", "Finished requests by reason.", out);
  for (const auto& [reason, count] : finished_)
    fmt::format_to(std::back_inserter(out), "{}{{finished_reason=\"{}\"}} {}\n", finished, reason,
                   count);
  const std::string responses = "clover:http_responses_total";
  write_head(responses, "counter", "HTTP responses by status.", out);
  for (const auto& [status, count] : responses_)
    fmt::format_to(std::back_inserter(out), "{}{{status=\"{}\"}} {}\n", responses, status, count);
  ttft_.write("clover:time_to_first_token_seconds", "Arrival to first token.", out);
  token_.write("clover:inter_token_latency_seconds", "Time of a token after the first.", out);
  request_.write("clover:e2e_request_latency_seconds", "Arrival to end.", out);
  step_.write("clover:step_seconds", "A step of the engine.", out);
  draft_.write("clover:step_draft_seconds", "Drafting in a step.", out);
  verify_.write("clover:step_verify_seconds", "The pass of a step.", out);
  sample_.write("clover:step_sample_seconds", "Sampling in a step.", out);
  return out;
}

}  // namespace clover
