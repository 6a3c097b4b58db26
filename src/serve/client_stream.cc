// SPDX-License-Identifier: Apache-2.0
#include "serve/client_stream.h"

#include <openssl/ssl.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/error.h"

namespace clover {
namespace {

namespace asio = boost::asio;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

// OpenSSL would ask for it at the terminal.
int no_password(char*, int, int, void*) { return 0; }

}  // namespace

std::shared_ptr<TlsContext> make_tls_context(const std::string& certificate,
                                             const std::string& key) {
  auto context = std::make_shared<TlsContext>(TlsContext::tls_server);
  SSL_CTX* native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);  // idle connections keep no buffers
  SSL_CTX_set_default_passwd_cb(native, no_password);
  boost::system::error_code error;
  context->use_certificate_chain_file(certificate, error);
  if (error)
    fail(ErrorCode::kIo, "the TLS certificate {} cannot be used: {}", certificate, error.message());
  context->use_private_key_file(key, TlsContext::pem, error);
  if (error)
    fail(ErrorCode::kIo,
         "the TLS key {} cannot be used (it must be PEM, have no password and fit "
         "the certificate {}): {}",
         key, certificate, error.message());
  return context;
}

ClientStream::ClientStream(asio::ip::tcp::socket socket, TlsContext* tls)
    : tcp_(std::move(socket)) {
  if (tls != nullptr) tls_.emplace(tcp_, *tls);
}

asio::awaitable<bool> ClientStream::handshake() {
  if (!tls_) co_return true;
  const auto [error] = co_await tls_->async_handshake(asio::ssl::stream_base::server, kTuple);
  shaken_ = !error;
  co_return shaken_;
}

asio::awaitable<void> ClientStream::close_sending() {
  if (shaken_) co_await tls_->async_shutdown(kTuple);
  boost::system::error_code ignored;
  tcp_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
}

}  // namespace clover
