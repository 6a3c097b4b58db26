// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "serve/server_state.h"

namespace clover {

// Listens and serves on threads of its own, from the moment it is made: until it has an API it
// answers that the model is being loaded.
class HttpServer {
 public:
  // `log` is called from several threads. Error(kIo) when the address cannot be had or a file of
  // TLS cannot be used.
  HttpServer(const ServerOptions& options, std::function<void(const AccessRecord&)> log);
  // Cuts what is open.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  void set_api(std::shared_ptr<Api> api);
  // Until SIGINT or SIGTERM.
  void wait_for_signal();
  // No new connections or requests; running ones go on.
  void stop_accepting();
  // Waits for open answers to be written, at most `seconds`, then cuts the rest.
  void finish(double seconds);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace clover
