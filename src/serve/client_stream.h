// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace clover {

using TlsContext = boost::asio::ssl::context;

// A server's side of TLS 1.2 and later, with the certificate chain and the key of two PEM files.
// Error(kIo) naming the file that cannot be read or does not fit.
std::shared_ptr<TlsContext> make_tls_context(const std::string& certificate,
                                             const std::string& key);

// A client's connection, with or without TLS: an AsyncReadStream and AsyncWriteStream. The deadline
// holds for every operation that begins after it was set; one that misses it closes the connection.
class ClientStream {
 public:
  using executor_type = boost::beast::tcp_stream::executor_type;
  using Socket = boost::beast::tcp_stream::socket_type;

  // `tls` null: none. It must outlive the stream.
  ClientStream(boost::asio::ip::tcp::socket socket, TlsContext* tls);

  executor_type get_executor() { return tcp_.get_executor(); }
  bool has_tls() const { return tls_.has_value(); }
  // Below TLS.
  boost::beast::tcp_stream& tcp() { return tcp_; }
  Socket& socket() { return tcp_.socket(); }
  void set_deadline(double seconds) {
    tcp_.expires_after(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000.0)));
  }
  // Ends pending operations; the connection stays.
  void cancel() { tcp_.cancel(); }
  // True without TLS. False: this client does not speak it.
  boost::asio::awaitable<bool> handshake();
  // Says that nothing follows.
  boost::asio::awaitable<void> close_sending();

  template <typename Buffers, typename Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_initiate<Token, void(boost::beast::error_code, size_t)>(
        [this](auto handler, const Buffers& space) {
          if (tls_)
            tls_->async_read_some(space, std::move(handler));
          else
            tcp_.async_read_some(space, std::move(handler));
        },
        token, buffers);
  }
  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_initiate<Token, void(boost::beast::error_code, size_t)>(
        [this](auto handler, const Buffers& bytes) {
          if (tls_)
            tls_->async_write_some(bytes, std::move(handler));
          else
            tcp_.async_write_some(bytes, std::move(handler));
        },
        token, buffers);
  }

 private:
  boost::beast::tcp_stream tcp_;
  std::optional<boost::asio::ssl::stream<boost::beast::tcp_stream&>> tls_;
  bool shaken_ = false;  // the handshake went well
};

}  // namespace clover
