// SPDX-License-Identifier: Apache-2.0
#include "measure/load_run.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <charconv>
#include <chrono>
#include <cmath>
#include <exception>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "measure/spread.h"
#include "measure/stream_reader.h"

namespace clover {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr double kMsPerSecond = 1000.0;

std::chrono::nanoseconds from_ms(double ms) {
  return std::chrono::nanoseconds(static_cast<int64_t>(ms * 1e6));
}

class LoadGenerator {
 public:
  explicit LoadGenerator(const LoadOptions& options) : options_(options) {
    boost::system::error_code error;
    endpoints_ = Tcp::resolver(context_).resolve(options.host, std::to_string(options.port), error);
    if (error)
      fail(ErrorCode::kIo, "cannot find {} port {}: {}", options.host, options.port,
           error.message());
    run_.requests.resize(static_cast<size_t>(options.requests));
  }

  LoadRun run() {
    begin_ = Clock::now();
    if (options_.rate > 0.0) {
      const std::vector<double> due = arrivals(options_.rate, options_.seed, options_.requests);
      for (int64_t i = 0; i < options_.requests; ++i)
        asio::co_spawn(context_, at(i, due[static_cast<size_t>(i)]), asio::detached);
    } else {
      for (int64_t i = 0; i < std::min(options_.clients, options_.requests); ++i)
        asio::co_spawn(context_, client(), asio::detached);
    }
    context_.run();
    run_.seconds = ms_since(begin_) / kMsPerSecond;
    return std::move(run_);
  }

 private:
  asio::awaitable<void> client() {
    while (next_ < options_.requests) {
      const int64_t number = next_++;
      co_await send(number, ms_since(begin_));
    }
  }

  asio::awaitable<void> at(int64_t number, double due_ms) {
    asio::steady_timer timer(context_);
    timer.expires_at(begin_ + std::chrono::duration_cast<Clock::duration>(from_ms(due_ms)));
    co_await timer.async_wait(kTuple);
    co_await send(number, due_ms);
  }

  asio::awaitable<void> send(int64_t number, double due_ms) {
    LoadedRequest& request = run_.requests[static_cast<size_t>(number)];
    request.due_ms = due_ms;
    request.body = number % std::ssize(options_.bodies);
    beast::tcp_stream stream(context_);
    stream.expires_after(from_ms(options_.timeout * kMsPerSecond));
    const auto [failed, endpoint] = co_await stream.async_connect(endpoints_, kTuple);
    if (failed) {
      request.error = "cannot connect: " + failed.message();
    } else {
      co_await exchange(stream, request);
    }
    request.total_ms = ms_since(begin_) - due_ms;
  }

  http::request<http::string_body> message(const LoadedRequest& request) const {
    http::request<http::string_body> message{http::verb::post, options_.path, 11};
    message.set(http::field::host, options_.host);
    message.set(http::field::content_type, "application/json");
    message.set(http::field::accept, "text/event-stream");
    message.keep_alive(false);
    if (!options_.key.empty()) message.set(http::field::authorization, "Bearer " + options_.key);
    message.body() = options_.bodies[static_cast<size_t>(request.body)];
    message.prepare_payload();
    return message;
  }

  asio::awaitable<void> exchange(beast::tcp_stream& stream, LoadedRequest& request) {
    const http::request<http::string_body> asked = message(request);
    const auto [unsent, sent] = co_await http::async_write(stream, asked, kTuple);
    if (unsent) {
      request.error = "cannot send: " + unsent.message();
      co_return;
    }
    beast::flat_buffer buffer;
    http::response_parser<http::buffer_body> parser;
    parser.body_limit(boost::none);
    const auto [headless, head] = co_await http::async_read_header(stream, buffer, parser, kTuple);
    if (headless) {
      request.error = "no answer: " + headless.message();
      co_return;
    }
    request.status = parser.get().result_int();
    StreamReader reader;
    std::string refusal;
    std::string piece(64 << 10, '\0');
    while (!parser.is_done()) {
      parser.get().body().data = piece.data();
      parser.get().body().size = piece.size();
      const auto [error, bytes] = co_await http::async_read_some(stream, buffer, parser, kTuple);
      const std::string_view got(piece.data(), piece.size() - parser.get().body().size);
      if (error && error != http::error::need_buffer) {
        request.error = "the answer broke off: " + error.message();
        break;
      }
      if (!take(request, reader, refusal, got)) break;
    }
    settle(request, reader, refusal);
  }

  bool take(LoadedRequest& request, StreamReader& reader, std::string& refusal,
            std::string_view got) const {
    constexpr size_t kMost = 4096;
    if (request.status != 200) {
      refusal += got.substr(0, kMost - std::min(kMost, refusal.size()));
      return true;
    }
    try {
      reader.add(got, ms_since(begin_) - request.due_ms);
    } catch (const Error& error) {
      request.error = error.what();
      return false;
    }
    return true;
  }

  static void settle(LoadedRequest& request, const StreamReader& reader,
                     const std::string& refusal) {
    if (request.error.empty()) request.error = reader.error();
    if (request.status != 200 && request.error.empty()) request.error = refusal;
    request.text = reader.text();
    request.prompt_tokens = reader.prompt_tokens();
    request.completion_tokens = std::max<int64_t>(reader.completion_tokens(), 0);
    request.steps = reader.steps();
    request.accepted = reader.accepted();
    request.first_ms = reader.first_ms();
    request.last_ms = reader.last_ms();
    request.gap_ms = reader.longest_gap_ms();
    request.whole = request.error.empty() && reader.done() && reader.completion_tokens() >= 0;
    if (!request.whole && request.error.empty())
      request.error = "the answer has no end or no usage";
  }

  const LoadOptions& options_;
  asio::io_context context_{1};
  Tcp::resolver::results_type endpoints_;
  Clock::time_point begin_;
  int64_t next_ = 0;
  LoadRun run_;
};

double ratio(double part, double whole) { return whole > 0.0 ? part / whole : 0.0; }

double tpot_ms(const LoadedRequest& request) {
  return ratio(request.last_ms - request.first_ms,
               static_cast<double>(request.completion_tokens - 1));
}

}  // namespace

void parse_server_url(const std::string& url, LoadOptions& options, std::string& base) {
  constexpr std::string_view kScheme = "http://";
  const auto bad = [&url](const char* why) {
    fail(ErrorCode::kInvalidArgument, "--url {}: {}", url, why);
  };
  if (!url.starts_with(kScheme)) bad("must begin with http:// (there is no TLS)");
  const std::string rest = url.substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string place = rest.substr(0, slash);
  base = rest.substr(slash);
  while (base.ends_with('/')) base.pop_back();
  const size_t colon = place.rfind(':');
  options.host = place.substr(0, colon);
  options.port = 80;
  if (colon != std::string::npos) {
    const char* end = place.data() + place.size();
    const auto [stop, error] = std::from_chars(place.data() + colon + 1, end, options.port);
    if (error != std::errc() || stop != end || options.port < 1 || options.port > 65535)
      bad("has no port from 1 to 65535 behind the colon");
  }
  if (options.host.empty()) bad("names no host");
}

std::vector<double> arrivals(double rate, uint64_t seed, int64_t count) {
  std::vector<double> times;
  double now = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    now += -std::log(random_uniform(stream_key(seed, static_cast<uint64_t>(i)), 0)) / rate *
           kMsPerSecond;
    times.push_back(now);
  }
  return times;
}

LoadRun run_load(const LoadOptions& options) {
  LoadRun run = LoadGenerator(options).run();
  const auto answered = [](const LoadedRequest& request) { return request.status != 0; };
  if (!run.requests.empty() && std::ranges::none_of(run.requests, answered))
    fail(ErrorCode::kIo, "no request to {} port {} got an answer: {}", options.host, options.port,
         run.requests.front().error);
  return run;
}

Json load_json(const LoadRun& run, const GoodputLimits& limits) {
  std::vector<double> ttft, tpot, total, gap;
  int64_t tokens = 0, prompt_tokens = 0, good = 0, steps = 0, accepted = 0;
  Json errors = Json::object();
  for (const LoadedRequest& request : run.requests) {
    if (!request.whole) {
      const std::string what = request.status == 0 || request.status == 200
                                   ? request.error.substr(0, 200)
                                   : "status " + std::to_string(request.status);
      errors[what] = errors.value(what, 0) + 1;
      continue;
    }
    tokens += request.completion_tokens;
    prompt_tokens += request.prompt_tokens;
    steps += request.steps;
    accepted += request.accepted;
    total.push_back(request.total_ms);
    if (request.first_ms >= 0.0) ttft.push_back(request.first_ms);
    if (request.completion_tokens > 1 && request.first_ms >= 0.0) {
      tpot.push_back(tpot_ms(request));
      gap.push_back(request.gap_ms);
    }
    const bool soon = limits.ttft <= 0.0 || request.first_ms <= limits.ttft;
    const bool fast =
        limits.tpot <= 0.0 || request.completion_tokens < 2 || tpot_ms(request) <= limits.tpot;
    good += soon && fast ? 1 : 0;
  }
  return {
      {"seconds", run.seconds},
      {"requests", run.requests.size()},
      {"answered", total.size()},
      {"errors", std::move(errors)},
      {"prompt_tokens", prompt_tokens},
      {"completion_tokens", tokens},
      {"requests_per_second", ratio(static_cast<double>(total.size()), run.seconds)},
      {"tokens_per_second", ratio(static_cast<double>(tokens), run.seconds)},
      {"goodput",
       {{"ttft_limit_ms", limits.ttft},
        {"tpot_limit_ms", limits.tpot},
        {"requests_per_second", ratio(static_cast<double>(good), run.seconds)},
        {"share", ratio(static_cast<double>(good), static_cast<double>(run.requests.size()))}}},
      {"extra_tokens_per_step", ratio(static_cast<double>(accepted), static_cast<double>(steps))},
      {"ttft_ms", tail_json(ttft)},
      {"tpot_ms", tail_json(tpot)},
      {"longest_gap_ms", tail_json(gap)},
      {"total_ms", tail_json(total)}};
}

}  // namespace clover
