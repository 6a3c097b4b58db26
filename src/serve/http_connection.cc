// SPDX-License-Identifier: Apache-2.0
#include "serve/http_connection.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <exception>
#include <new>

#include "serve/http_auth.h"
#include "serve/http_generation.h"
#include "serve/request_error.h"
#include "serve/web_page.h"

namespace clover {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr int kRetrySeconds = 1;

struct Route {
  http::verb method;
  std::string_view path;
};

constexpr Route kRoutes[] = {
    {http::verb::get, "/"},
    {http::verb::get, "/health"},
    {http::verb::get, "/metrics"},
    {http::verb::get, "/version"},
    {http::verb::get, "/v1/models"},
    {http::verb::post, "/tokenize"},
    {http::verb::post, "/detokenize"},
    {http::verb::post, "/v1/completions"},
    {http::verb::post, "/v1/chat/completions"},
};

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

std::string_view path_of(beast::string_view target) {
  const std::string_view text = view(target);
  return text.substr(0, text.find('?'));
}

HttpReply error_reply(int status, const std::string& message, const std::string& param = {},
                      const std::string& code = {}) {
  HttpReply reply{.status = status, .body = json_line(error_json(status, message, param, code))};
  if (status == 429 || status == 503)
    reply.headers.emplace_back("Retry-After", std::to_string(kRetrySeconds));
  return reply;
}

HttpReply reply_of(const std::exception& error) {
  if (const auto* request = dynamic_cast<const RequestError*>(&error))
    return error_reply(request->status(), error.what(), request->param(), request->word());
  if (const auto* known = dynamic_cast<const Error*>(&error))
    return error_reply(status_of(*known), error.what());
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return error_reply(503, "out of memory");
  return error_reply(500, error.what());
}

// What a request that could not be read is answered; status 0: nothing, the client is gone or was
// too slow, which closes the connection.
HttpReply read_error_reply(const beast::error_code& error, const ServerOptions& options) {
  HttpReply reply{.status = 0};
  if (error == http::error::body_limit)
    reply = error_reply(413, fmt::format("the body has more than {} bytes", options.max_body));
  else if (error == http::error::header_limit || error == http::error::buffer_overflow)
    reply = error_reply(431, fmt::format("the header has more than {} bytes", options.max_header));
  else if (error != http::error::end_of_stream && error != http::error::partial_message &&
           error.category() == http::make_error_code(http::error::bad_version).category())
    reply = error_reply(400, "this is not HTTP: " + error.message());
  reply.close = true;
  return reply;
}

std::string peer_of(const asio::ip::tcp::socket& socket) {
  beast::error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  return error ? "?" : endpoint.address().to_string();
}

}  // namespace

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, std::shared_ptr<ServerState> state,
                               std::shared_ptr<TlsContext> tls)
    : tls_(std::move(tls)),
      stream_(std::move(socket), tls_.get()),
      buffer_(static_cast<size_t>(state->options().max_header) + (64 << 10)),
      state_(std::move(state)),
      peer_(peer_of(stream_.socket())) {}

void HttpConnection::start() {
  const std::weak_ptr<HttpConnection> weak = weak_from_this();
  number_ = state_->join([weak, executor = stream_.get_executor()] {
    asio::post(executor, [weak] {
      const auto self = weak.lock();
      if (self && self->idle_) self->stream_.cancel();
    });
  });
  if (number_ == 0) return;  // too many: closed by the destructor
  asio::co_spawn(
      stream_.get_executor(), [self = shared_from_this()] { return self->run(); },
      [self = shared_from_this()](const std::exception_ptr&) {
        self->state_->leave(self->number_);
      });
}

asio::awaitable<void> HttpConnection::run() {
  beast::error_code ignored;
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  set_deadline(state_->options().handshake);
  idle_ = true;
  const bool ready = co_await stream_.handshake();
  idle_ = false;
  while (ready && co_await serve_one()) {
  }
  co_await linger();
}

// Says that nothing follows. What a client still sends is thrown away for a moment, so that it can
// read our last words.
asio::awaitable<void> HttpConnection::linger() {
  constexpr double kSeconds = 2.0, kClosingSeconds = 0.2;
  constexpr size_t kPiece = 64 << 10;
  std::string piece(kPiece, '\0');
  const auto wait = [&] { set_deadline(state_->closing() ? kClosingSeconds : kSeconds); };
  wait();
  co_await stream_.close_sending();
  wait();
  while (true) {
    const auto [error, bytes] = co_await stream_.tcp().async_read_some(asio::buffer(piece), kTuple);
    if (error) co_return;
  }
}

void HttpConnection::log(int status) {
  record_.status = status;
  record_.peer = peer_;
  record_.ms = ms_since(begin_);
  state_->log(record_);
}

void HttpConnection::note(const Parser& parser) {
  begin_ = Clock::now();
  version_ = parser.get().version();
  keep_alive_ = parser.get().keep_alive();
  record_ = {};
  record_.method = std::string(view(parser.get().method_string()));
  record_.target = std::string(path_of(parser.get().target()));
}

asio::awaitable<bool> HttpConnection::serve_one() {
  Parser parser;
  parser.header_limit(static_cast<uint32_t>(state_->options().max_header));
  parser.body_limit(static_cast<uint64_t>(state_->options().max_body));
  if (state_->closing()) co_return false;
  set_deadline(state_->options().idle);
  idle_ = buffer_.size() == 0;
  const auto [error, bytes] = co_await http::async_read_header(stream_, buffer_, parser, kTuple);
  idle_ = false;
  note(parser);
  if (error) {
    HttpReply reply = read_error_reply(error, state_->options());
    if (reply.status == 0) co_return false;
    co_return co_await send(std::move(reply));
  }
  HttpReply reply;
  if (refused(parser, reply)) co_return co_await send(std::move(reply));
  if (!parser.is_done() && !co_await read_body(parser)) co_return false;
  co_return co_await answer(parser);
}

// Whether the header alone is reason to refuse the request; its body has not been read then.
bool HttpConnection::refused(const Parser& parser, HttpReply& reply) const {
  const auto& request = parser.get();
  const std::string_view path = path_of(request.target());
  const auto same_path = [path](const Route& route) { return route.path == path; };
  const auto* route = std::find_if(std::begin(kRoutes), std::end(kRoutes), same_path);
  const std::string& key = state_->options().api_key;
  if (!key.empty() && path != "/health" &&
      !gives_key(view(request[http::field::authorization]), key)) {
    reply = error_reply(401, "this server needs an API key: Authorization: Bearer KEY", {},
                        "invalid_api_key");
    reply.headers.emplace_back("WWW-Authenticate", path == "/" ? "Basic" : "Bearer");
  } else if (route == std::end(kRoutes)) {
    reply = error_reply(404, fmt::format("there is nothing at {}", path));
  } else if (route->method != request.method()) {
    reply = error_reply(
        405, fmt::format("{} takes {} requests", path, view(http::to_string(route->method))));
    reply.headers.emplace_back("Allow", std::string(view(http::to_string(route->method))));
  } else if (route->method == http::verb::post &&
             !view(request[http::field::content_type]).starts_with("application/json")) {
    // A web page elsewhere can send other types here without asking.
    reply = error_reply(415, "the body must be JSON: Content-Type: application/json");
  } else if (state_->api() == nullptr && path != "/" && path != "/health") {
    reply = error_reply(503, "the model is being loaded");
  } else {
    return false;
  }
  reply.close = !parser.is_done();
  return true;
}

asio::awaitable<bool> HttpConnection::read_body(Parser& parser) {
  set_deadline(state_->options().body);
  if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    http::response<http::empty_body> go_on{http::status::continue_, parser.get().version()};
    const auto [failed, bytes] = co_await http::async_write(stream_, go_on, kTuple);
    if (failed) co_return false;
  }
  const auto [error, bytes] = co_await http::async_read(stream_, buffer_, parser, kTuple);
  if (!error) co_return true;
  HttpReply reply = read_error_reply(error, state_->options());
  if (reply.status != 0) co_await send(std::move(reply));
  co_return false;
}

HttpReply HttpConnection::simple_reply(const Parser& parser) const {
  const std::string_view path = path_of(parser.get().target());
  const std::shared_ptr<Api> api = state_->api();
  if (path == "/health") {
    if (!api) return {.status = 503, .body = "{\"status\":\"loading\"}"};
    if (state_->closing()) return {.status = 503, .body = "{\"status\":\"closing\"}"};
    return {.body = "{\"status\":\"ok\"}"};
  }
  if (path == "/")
    return {.body = std::string(web_page()),
            .type = "text/html; charset=utf-8",
            .headers = {{"Content-Security-Policy",
                         "default-src 'none'; style-src 'unsafe-inline'; script-src "
                         "'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; "
                         "form-action 'none'; frame-ancestors 'none'"}}};
  if (path == "/metrics")
    return {.body = api->metrics(state_->connections()),
            .type = "text/plain; version=0.0.4; charset=utf-8"};
  if (path == "/version") return {.body = json_line(api->version())};
  if (path == "/v1/models") return {.body = json_line(api->models())};
  const Json body = parse_json(parser.get().body(), "the request body");
  return {.body = json_line(path == "/tokenize" ? api->tokenize(body) : api->detokenize(body))};
}

asio::awaitable<bool> HttpConnection::answer(const Parser& parser) {
  const std::string_view path = path_of(parser.get().target());
  if (path == "/v1/chat/completions" || path == "/v1/completions")
    co_return co_await generate(parser, path == "/v1/chat/completions");
  HttpReply reply;
  try {
    reply = simple_reply(parser);
  } catch (const std::exception& error) {
    reply = reply_of(error);
  }
  co_return co_await send(std::move(reply));
}

asio::awaitable<bool> HttpConnection::send(HttpReply reply) {
  http::response<http::string_body> response{static_cast<http::status>(reply.status), version_};
  response.set(http::field::server, "clover");
  response.set(http::field::content_type, reply.type);
  response.set("X-Content-Type-Options", "nosniff");
  for (const auto& [name, value] : reply.headers) response.set(name, value);
  const bool keep = keep_alive_ && !reply.close && !state_->closing();
  response.keep_alive(keep);
  response.body() = std::move(reply.body);
  response.prepare_payload();
  set_deadline(state_->options().write);
  const auto [error, bytes] = co_await http::async_write(stream_, response, kTuple);
  log(reply.status);
  co_return keep && !error;
}

// Notices when the client goes away while it waits for an answer.
void HttpConnection::watch_client(const std::shared_ptr<Mailbox>& mailbox) {
  if (stream_.has_tls()) return watch_tls_client(mailbox);
  stream_.socket().async_wait(asio::ip::tcp::socket::wait_read,
                              [self = shared_from_this(), mailbox](const beast::error_code& error) {
                                if (error) return;  // called off
                                // Readable with nothing to read: the other side has closed. A next
                                // request may wait.
                                char byte = 0;
                                beast::error_code failed;
                                asio::ip::tcp::socket& socket = self->stream_.socket();
                                socket.non_blocking(true, failed);
                                socket.receive(asio::buffer(&byte, 1),
                                               asio::socket_base::message_peek, failed);
                                if (failed && failed != asio::error::would_block) mailbox->close();
                              });
}

// Under TLS only a read tells a client's goodbye from its next request, whose beginning is kept.
void HttpConnection::watch_tls_client(const std::shared_ptr<Mailbox>& mailbox) {
  constexpr size_t kPiece = 4096;
  const size_t room = std::min(kPiece, buffer_.max_size() - buffer_.size());
  if (room == 0) return;
  watching_ = true;
  stream_.tcp().expires_never();
  stream_.async_read_some(buffer_.prepare(room), [self = shared_from_this(), mailbox](
                                                     const beast::error_code& error, size_t bytes) {
    self->watching_ = false;
    self->buffer_.commit(bytes);
    if (error && error != asio::error::operation_aborted) mailbox->close();
  });
}

asio::awaitable<void> HttpConnection::stop_watching() {
  beast::error_code ignored;
  stream_.socket().cancel(ignored);
  while (watching_) co_await asio::post(stream_.get_executor(), asio::use_awaitable);
}

asio::awaitable<bool> HttpConnection::generate(const Parser& parser, bool chat) {
  HttpReply refusal{.status = 0};
  std::unique_ptr<Generation> generation;
  const std::shared_ptr<Api> api = state_->api();
  try {
    const Json body = parse_json(parser.get().body(), "the request body");
    generation =
        std::make_unique<Generation>(*api, api->prepare(body, chat), stream_.get_executor());
  } catch (const std::exception& error) {
    refusal = reply_of(error);
    if (refusal.status == 429 && state_->closing()) refusal.status = 503;
  }
  if (refusal.status != 0) co_return co_await send(std::move(refusal));
  record_.id = generation->id();
  watch_client(generation->mailbox());
  bool keep = false;
  if (generation->streams())
    keep = co_await stream(*generation);
  else
    keep = co_await wait_for_all(*generation);
  co_await stop_watching();
  co_return keep;
}

asio::awaitable<bool> HttpConnection::wait_for_all(Generation& generation) {
  constexpr int kClientGone = 499;  // as web servers log it
  ApiAnswer& answer = generation.answer();
  while (!answer.finished()) {
    co_await generation.mailbox()->wait(std::chrono::hours(1));
    if (generation.mailbox()->closed()) {
      log(kClientGone);
      co_return false;
    }
    while (!generation.mailbox()->empty()) answer.add(generation.mailbox()->take());
  }
  record_.prompt_tokens = answer.prompt_tokens();
  record_.completion_tokens = answer.completion_tokens();
  HttpReply reply;
  if (answer.failed() < 0)
    reply.body = json_line(answer.whole());
  else if (answer.failure() == FinishReason::kCancelled)
    reply = error_reply(503, "the server is shutting down");
  else
    reply = error_reply(500, answer.error());
  co_return co_await send(std::move(reply));
}

asio::awaitable<bool> HttpConnection::write_piece(const std::string& text, bool chunked) {
  set_deadline(state_->options().write);
  if (chunked) {
    // In one piece: under TLS each buffer would be a record of its own.
    const std::string chunk = fmt::format("{:x}\r\n{}\r\n", text.size(), text);
    const auto [error, bytes] = co_await asio::async_write(stream_, asio::buffer(chunk), kTuple);
    co_return !error;
  }
  const auto [error, bytes] = co_await asio::async_write(stream_, asio::buffer(text), kTuple);
  co_return !error;
}

asio::awaitable<bool> HttpConnection::stream(Generation& generation) {
  const bool chunked = version_ >= 11;
  http::response<http::empty_body> response{http::status::ok, version_};
  response.set(http::field::server, "clover");
  response.set(http::field::content_type, "text/event-stream; charset=utf-8");
  response.set(http::field::cache_control, "no-cache");
  response.set("X-Accel-Buffering", "no");  // of proxies
  response.chunked(chunked);
  const bool keep = keep_alive_ && chunked;
  response.keep_alive(keep);
  http::response_serializer<http::empty_body> serializer{response};
  set_deadline(state_->options().write);
  const auto [error, bytes] = co_await http::async_write_header(stream_, serializer, kTuple);
  bool well = !error;
  const auto pause =
      std::chrono::milliseconds(static_cast<int64_t>(state_->options().keep_alive * 1000.0));
  std::string text = generation.opening();
  while (well && !generation.mailbox()->closed()) {
    if (!text.empty()) well = co_await write_piece(text, chunked);
    if (!well || generation.over()) break;
    co_await generation.mailbox()->wait(pause);
    text = generation.take_news();
    if (text.empty()) text = ": waiting\n\n";
  }
  well = well && generation.over();
  if (well && chunked) {
    const auto [failed, last] =
        co_await asio::async_write(stream_, http::make_chunk_last(), kTuple);
    well = !failed;
  }
  record_.prompt_tokens = generation.answer().prompt_tokens();
  record_.completion_tokens = generation.answer().completion_tokens();
  log(well ? static_cast<int>(http::status::ok) : 499);
  co_return well&& keep && !state_->closing();
}

}  // namespace clover
