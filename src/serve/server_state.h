// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "serve/api.h"

namespace clover {

// Limits of the HTTP server. Durations are seconds.
struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                // 0: any that is free
  std::string api_key;            // empty: none is asked for
  std::string tls_certificate;    // PEM file with the chain; empty: no TLS
  std::string tls_key;            // PEM file
  int64_t max_body = 8 << 20;     // bytes
  int64_t max_header = 16 << 10;  // bytes
  int64_t max_connections = 1024;
  double handshake = 10;   // of TLS
  double idle = 60;        // for the next request to come, header and all
  double body = 60;        // for its body
  double write = 30;       // for a piece of the answer to be taken
  double keep_alive = 15;  // between comments in a stream that has nothing to say
};

// What is logged of a request: nothing of its text.
struct AccessRecord {
  std::string peer;
  std::string method;
  std::string target;
  int status = 0;
  double ms = 0.0;
  std::string id;  // of the answer, empty where there is none
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
};

// Shared by the server and its connections. Thread-safe.
class ServerState {
 public:
  ServerState(ServerOptions options, std::function<void(const AccessRecord&)> log)
      : options_(std::move(options)), log_(std::move(log)) {}

  const ServerOptions& options() const { return options_; }
  // Null while the model is being loaded.
  std::shared_ptr<Api> api() const {
    const std::lock_guard lock(mutex_);
    return api_;
  }
  void set_api(std::shared_ptr<Api> api) {
    const std::lock_guard lock(mutex_);
    api_ = std::move(api);
  }
  bool closing() const { return closing_; }
  void log(const AccessRecord& record) const {
    if (const auto served = api()) served->server_metrics().response(record.status);
    if (log_) log_(record);
  }

  // Connections register how they can be told that the server closes; the return value is for
  // leave(), 0 when there are too many.
  uint64_t join(std::function<void()> on_close) {
    const std::lock_guard lock(mutex_);
    if (static_cast<int64_t>(connections_.size()) >= options_.max_connections) return 0;
    connections_.emplace(++last_, std::move(on_close));
    return last_;
  }
  void leave(uint64_t connection) {
    const std::lock_guard lock(mutex_);
    connections_.erase(connection);
  }
  int64_t connections() const {
    const std::lock_guard lock(mutex_);
    return static_cast<int64_t>(connections_.size());
  }
  // Idle connections end now, the others behind their answer.
  void close() {
    closing_ = true;
    const std::lock_guard lock(mutex_);
    for (const auto& [id, on_close] : connections_) on_close();
  }

 private:
  ServerOptions options_;
  std::function<void(const AccessRecord&)> log_;
  std::atomic<bool> closing_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<Api> api_;
  std::map<uint64_t, std::function<void()>> connections_;
  uint64_t last_ = 0;
};

}  // namespace clover
