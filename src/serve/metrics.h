// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"

namespace clover {

// Counts of values up to each bound, as Prometheus draws quantiles from.
class MetricHistogram {
 public:
  // Upper bounds, ascending.
  explicit MetricHistogram(std::vector<double> bounds);
  void observe(double value, int64_t times = 1);
  // Lines of the text format.
  void write(const std::string& name, const std::string& help, std::string& out) const;
  int64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;
  std::vector<int64_t> counts_;  // one more: above the last bound
  int64_t count_ = 0;
  double sum_ = 0.0;
};

// When a request came and when it last said something; kept by whoever sends its output.
struct RequestTimes {
  Clock::time_point begin = Clock::now();
  Clock::time_point last = begin;
  bool answered = false;
};

// What GET /metrics tells. Thread-safe.
class ServerMetrics {
 public:
  ServerMetrics();
  // After a step of the engine that took `ms`.
  void step(const EngineStats& stats, double ms);
  // A piece of a request's output.
  void output(RequestTimes& times, const Output& output);
  // A finished HTTP request.
  void response(int status);
  // The Prometheus text format.
  std::string text(const EngineStats& stats, int64_t connections) const;

 private:
  mutable std::mutex mutex_;
  MetricHistogram ttft_, token_, request_;
  MetricHistogram step_, draft_, verify_, sample_;
  EngineStats last_;
  std::map<int, int64_t> responses_;         // by status
  std::map<std::string, int64_t> finished_;  // requests, by reason
  int64_t prompt_tokens_ = 0;
  int64_t completion_tokens_ = 0;
};

}  // namespace clover
