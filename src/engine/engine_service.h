// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"

namespace clover {

struct ServiceOptions {
  // Requests that may wait besides those that run; more are refused.
  int64_t max_queue = 256;
  // Called on the engine's thread after every step, with the statistics after it and how long it
  // took; must not throw. For metrics.
  std::function<void(const EngineStats&, double ms)> on_step = {};
};

// An engine on a thread of its own, for callers on any thread. A request's on_output is called on
// that thread, must return soon and must not throw; after the call with `finish` set nothing comes
// any more. Every accepted request gets that last call, whatever happens.
class EngineService {
 public:
  EngineService(std::unique_ptr<Engine> engine, ServiceOptions options);
  // Cuts what still runs.
  ~EngineService();
  EngineService(const EngineService&) = delete;
  EngineService& operator=(const EngineService&) = delete;

  // Queues all of the requests, or none; returns their ids. Error(kInvalidArgument), naming the
  // field, for one that the engine refuses; Error(kExhausted) when the queue is full or the service
  // is draining.
  std::vector<int64_t> submit(std::vector<Request> requests);
  // The request ends with the step that is being taken now. Unknown ids are ignored.
  void cancel(int64_t id);
  // Takes no more requests and waits for those it has, at most `limit`; then cuts them. True when
  // all had their own end.
  bool drain(Clock::duration limit);

  // What never changes: the model, the context. Nothing else of the engine may be touched.
  int64_t context() const { return engine_->context(); }
  const Model& model() const { return engine_->model(); }
  EngineStats stats() const;
  bool draining() const;
  // Accepted requests that have not ended.
  int64_t in_flight() const;

 private:
  using Arrival = std::pair<int64_t, Request>;  // with the service's id
  void run();
  void take_in(std::vector<Arrival>& arrivals, const std::vector<int64_t>& cancels);
  void wrap_output(int64_t id, Request& request);
  void note_end(int64_t id);
  bool step();

  std::unique_ptr<Engine> engine_;
  ServiceOptions options_;
  int64_t most_in_flight_ = 0;

  mutable std::mutex mutex_;  // guards the members up to the next comment
  std::condition_variable wake_;
  std::condition_variable ended_;
  std::vector<Arrival> arrivals_;
  std::vector<int64_t> cancels_;
  int64_t next_id_ = 1;
  int64_t in_flight_ = 0;
  bool draining_ = false;
  bool cut_ = false;
  bool stop_ = false;
  EngineStats stats_;

  // Of the engine's thread alone.
  std::unordered_map<int64_t, int64_t> engine_ids_;  // by the service's id
  std::vector<int64_t> over_;  // engine ids that ended since the last step, -1: never had one
  std::thread thread_;
};

}  // namespace clover
