// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "serve/client_stream.h"
#include "serve/mailbox.h"
#include "serve/server_state.h"

namespace clover {

// A response that is not a stream.
struct HttpReply {
  int status = 200;
  std::string body = {};
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
  bool close = false;  // the connection cannot go on
};

// One client: reads requests one after the other and answers them. Lives on a strand, kept alive by
// its own coroutine.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  // `tls`: null without.
  HttpConnection(boost::asio::ip::tcp::socket socket, std::shared_ptr<ServerState> state,
                 std::shared_ptr<TlsContext> tls);
  void start();

 private:
  template <typename T>
  using Task = boost::asio::awaitable<T>;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  struct Generation;

  Task<void> run();
  // False when the connection is over.
  Task<bool> serve_one();
  Task<bool> read_body(Parser& parser);
  Task<bool> answer(const Parser& parser);
  Task<bool> generate(const Parser& parser, bool chat);
  Task<bool> wait_for_all(Generation& generation);
  Task<bool> stream(Generation& generation);
  Task<bool> write_piece(const std::string& text, bool chunked);
  Task<bool> send(HttpReply reply);
  Task<void> linger();
  HttpReply simple_reply(const Parser& parser) const;
  bool refused(const Parser& parser, HttpReply& reply) const;
  void note(const Parser& parser);
  void watch_client(const std::shared_ptr<Mailbox>& mailbox);
  void watch_tls_client(const std::shared_ptr<Mailbox>& mailbox);
  Task<void> stop_watching();
  void set_deadline(double seconds) { stream_.set_deadline(seconds); }
  void log(int status);

  std::shared_ptr<TlsContext> tls_;
  ClientStream stream_;
  boost::beast::flat_buffer buffer_;
  std::shared_ptr<ServerState> state_;
  std::string peer_;
  uint64_t number_ = 0;
  bool idle_ = false;
  bool watching_ = false;  // a read waits while an answer is made
  bool keep_alive_ = false;
  unsigned version_ = 11;
  Clock::time_point begin_;
  AccessRecord record_;
};

}  // namespace clover
