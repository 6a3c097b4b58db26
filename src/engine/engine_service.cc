// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_service.h"

#include <exception>

#include "base/error.h"

namespace clover {

EngineService::EngineService(std::unique_ptr<Engine> engine, ServiceOptions options)
    : engine_(std::move(engine)), options_(std::move(options)) {
  most_in_flight_ = engine_->options().max_sequences + options_.max_queue;
  stats_ = engine_->engine_stats();
  thread_ = std::thread([this] { run(); });
}

EngineService::~EngineService() {
  {
    const std::lock_guard lock(mutex_);
    draining_ = cut_ = stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

std::vector<int64_t> EngineService::submit(std::vector<Request> requests) {
  for (const Request& request : requests) engine_->check(request);
  std::vector<int64_t> ids;
  {
    const std::lock_guard lock(mutex_);
    if (draining_) fail(ErrorCode::kExhausted, "the server is shutting down");
    if (in_flight_ + std::ssize(requests) > most_in_flight_)
      fail(ErrorCode::kExhausted, "{} requests are running or waiting, as many as are taken",
           in_flight_);
    for (Request& request : requests) {
      ids.push_back(next_id_++);
      arrivals_.emplace_back(ids.back(), std::move(request));
    }
    in_flight_ += std::ssize(requests);
  }
  wake_.notify_one();
  return ids;
}

void EngineService::cancel(int64_t id) {
  {
    const std::lock_guard lock(mutex_);
    cancels_.push_back(id);
  }
  wake_.notify_one();
}

bool EngineService::drain(Clock::duration limit) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  if (ended_.wait_for(lock, limit, [this] { return in_flight_ == 0; })) return true;
  cut_ = true;
  wake_.notify_one();
  ended_.wait(lock, [this] { return in_flight_ == 0; });
  return false;
}

EngineStats EngineService::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

bool EngineService::draining() const {
  const std::lock_guard lock(mutex_);
  return draining_;
}

int64_t EngineService::in_flight() const {
  const std::lock_guard lock(mutex_);
  return in_flight_;
}

void EngineService::run() {
  bool busy = false;
  while (true) {
    std::vector<Arrival> arrivals;
    std::vector<int64_t> cancels;
    bool cut = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] {
        return busy || stop_ || !arrivals_.empty() || !cancels_.empty() || (cut_ && in_flight_ > 0);
      });
      arrivals.swap(arrivals_);
      cancels.swap(cancels_);
      cut = cut_;
      if (stop_ && in_flight_ == 0) return;
    }
    take_in(arrivals, cancels);
    if (cut) engine_->end_all(FinishReason::kCancelled);
    busy = step();
  }
}

void EngineService::take_in(std::vector<Arrival>& arrivals, const std::vector<int64_t>& cancels) {
  for (auto& [id, request] : arrivals) {
    wrap_output(id, request);
    const auto on_output = request.on_output;
    try {
      engine_ids_[id] = engine_->submit(std::move(request));
    } catch (const std::exception& error) {  // checked before: memory alone can be short
      engine_ids_.erase(id);
      const RequestStats none;
      on_output({.text = {},
                 .tokens = {},
                 .finish = FinishReason::kError,
                 .error = error.what(),
                 .stats = &none});
    }
  }
  for (const int64_t id : cancels) {
    const auto found = engine_ids_.find(id);
    if (found != engine_ids_.end()) engine_->cancel(found->second);
  }
}

void EngineService::wrap_output(int64_t id, Request& request) {
  request.on_output = [this, id, inner = std::move(request.on_output)](const Output& output) {
    if (inner) inner(output);
    if (output.finish != FinishReason::kNone) note_end(id);
  };
}

void EngineService::note_end(int64_t id) {
  const auto found = engine_ids_.find(id);
  over_.push_back(found == engine_ids_.end() ? -1 : found->second);
  if (found != engine_ids_.end()) engine_ids_.erase(found);
}

// One step; an exception in it, which no request should cause, ends all requests but not the
// service.
bool EngineService::step() {
  const auto begin = Clock::now();
  bool more = true;
  try {
    more = engine_->step();
  } catch (const std::exception& error) {
    engine_->end_all(FinishReason::kError, error.what());
  }
  for (const int64_t id : over_) engine_->forget(id);
  EngineStats stats = engine_->engine_stats();
  if (options_.on_step) options_.on_step(stats, ms_since(begin));
  {
    // Who is told that nothing is in flight finds everything given back.
    const std::lock_guard lock(mutex_);
    stats_ = std::move(stats);
    in_flight_ -= std::ssize(over_);
  }
  if (!over_.empty()) ended_.notify_all();
  over_.clear();
  return more;
}

}  // namespace clover
