// SPDX-License-Identifier: Apache-2.0
#include "serve/http_server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <csignal>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "serve/http_connection.h"

namespace clover {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;

constexpr int kThreads = 2;  // one may be busy with a long prompt
constexpr auto kPause = std::chrono::milliseconds(100);

}  // namespace

struct HttpServer::Impl {
  Impl(const ServerOptions& options, std::function<void(const AccessRecord&)> log)
      : tls(options.tls_certificate.empty()
                ? nullptr
                : make_tls_context(options.tls_certificate, options.tls_key)),
        state(std::make_shared<ServerState>(options, std::move(log))),
        strand(asio::make_strand(context)),
        acceptor(strand),
        retry(strand),
        signals(context) {}

  void listen();
  void accept();

  asio::io_context context{kThreads};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::shared_ptr<TlsContext> tls;  // null: none
  std::shared_ptr<ServerState> state;
  asio::strand<asio::io_context::executor_type> strand;
  Tcp::acceptor acceptor;
  asio::steady_timer retry;
  asio::signal_set signals;
  std::promise<void> signalled;
  std::vector<std::thread> threads;
};

void HttpServer::Impl::listen() {
  const ServerOptions& options = state->options();
  boost::system::error_code error;
  const auto failed = [&](const char* what) {
    if (error)
      fail(ErrorCode::kIo, "cannot {} {} port {}: {}", what, options.host, options.port,
           error.message());
  };
  Tcp::resolver resolver(context);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port), Tcp::resolver::passive, error);
  failed("find the address");
  const Tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  failed("listen on");
  acceptor.set_option(asio::socket_base::reuse_address(true), error);
  acceptor.bind(endpoint, error);
  failed("listen on");
  acceptor.listen(asio::socket_base::max_listen_connections, error);
  failed("listen on");
}

void HttpServer::Impl::accept() {
  acceptor.async_accept(asio::make_strand(context),
                        [this](const boost::system::error_code& error, Tcp::socket socket) {
                          if (error == asio::error::operation_aborted || state->closing()) return;
                          if (error) {  // out of file handles, most likely: some will be closed
                            retry.expires_after(kPause);
                            retry.async_wait([this](const boost::system::error_code& stopped) {
                              if (!stopped) accept();
                            });
                            return;
                          }
                          std::make_shared<HttpConnection>(std::move(socket), state, tls)->start();
                          accept();
                        });
}

HttpServer::HttpServer(const ServerOptions& options, std::function<void(const AccessRecord&)> log)
    : impl_(std::make_unique<Impl>(options, std::move(log))) {
  impl_->listen();
  asio::post(impl_->strand, [impl = impl_.get()] { impl->accept(); });
  for (int i = 0; i < kThreads; ++i)
    impl_->threads.emplace_back([impl = impl_.get()] { impl->context.run(); });
}

HttpServer::~HttpServer() { finish(0.0); }

int HttpServer::port() const { return impl_->acceptor.local_endpoint().port(); }

void HttpServer::set_api(std::shared_ptr<Api> api) { impl_->state->set_api(std::move(api)); }

void HttpServer::wait_for_signal() {
  impl_->signals.add(SIGINT);
  impl_->signals.add(SIGTERM);
  impl_->signals.async_wait([impl = impl_.get()](const boost::system::error_code& error, int) {
    if (!error) impl->signalled.set_value();
  });
  impl_->signalled.get_future().wait();
  // The next one meets the default action.
  boost::system::error_code ignored;
  impl_->signals.clear(ignored);
}

void HttpServer::stop_accepting() {
  impl_->state->close();
  asio::post(impl_->strand, [impl = impl_.get()] {
    boost::system::error_code ignored;
    impl->acceptor.close(ignored);
    impl->retry.cancel();
  });
}

void HttpServer::finish(double seconds) {
  if (impl_->threads.empty()) return;
  const auto begin = Clock::now();
  while (impl_->state->connections() > 0 && ms_since(begin) < seconds * 1000.0)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  impl_->work.reset();
  impl_->context.stop();
  for (std::thread& thread : impl_->threads) thread.join();
  impl_->threads.clear();
}

}  // namespace clover
