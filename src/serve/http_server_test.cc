// SPDX-License-Identifier: Apache-2.0
// The server over real sockets, with a tiny model whose tokenizer only decodes: prompts are ids.
#include "serve/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <string>
#include <thread>

#include "engine/engine_fixtures.h"
#include "serve/http_connection.h"

namespace clover {
namespace {

using namespace engine_testing;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

namespace asio = boost::asio;

class HttpServerTest : public ::testing::Test {
 protected:
  void start(ServerOptions options, int64_t parallel = 2, int64_t queue = 4) {
    options.port = 0;
    EngineOptions engine{.context = 4096, .max_sequences = parallel};
    engine.prefix_cache = true;
    service_ = std::make_unique<EngineService>(
        std::make_unique<Engine>(tiny_model(), tokenizer_, engine),
        ServiceOptions{queue,
                       [this](const EngineStats& stats, double ms) { metrics_.step(stats, ms); }});
    server_ = std::make_unique<HttpServer>(options, [this](const AccessRecord&) { ++logged_; });
  }
  void serve(ServerOptions options = {}, int64_t parallel = 2, int64_t queue = 4) {
    start(std::move(options), parallel, queue);
    server_->set_api(
        std::make_shared<Api>(tokenizer_, *service_, metrics_, ApiOptions{"tiny", "1", "none", 0}));
  }
  void TearDown() override {
    server_->stop_accepting();
    service_->drain(std::chrono::milliseconds(0));
    server_->finish(1.0);
    server_.reset();
  }

  asio::ip::tcp::socket connect() {
    asio::ip::tcp::socket socket(context_);
    socket.connect({asio::ip::make_address("127.0.0.1"), static_cast<uint16_t>(server_->port())});
    return socket;
  }
  // Everything that comes back until the server closes.
  std::string raw(const std::string& bytes) {
    asio::ip::tcp::socket socket = connect();
    boost::system::error_code error;
    asio::write(socket, asio::buffer(bytes), error);
    std::string answer;
    asio::read(socket, asio::dynamic_buffer(answer), error);
    return answer;
  }
  static std::string post_bytes(const std::string& path, const std::string& body) {
    return fmt::format(
        "POST {} HTTP/1.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
        "Content-Length: {}\r\n\r\n{}",
        path, body.size(), body);
  }
  std::string post(const std::string& path, const std::string& body) {
    return raw(post_bytes(path, body));
  }
  std::string get(const std::string& path, const std::string& header = "") {
    return raw(fmt::format("GET {} HTTP/1.1\r\nConnection: close\r\n{}\r\n", path, header));
  }
  static Json json_of(const std::string& answer) {
    return parse_json(std::string_view(answer).substr(answer.find("\r\n\r\n") + 4), "answer");
  }
  bool idle_within(double ms) {
    const auto begin = Clock::now();
    while (service_->in_flight() > 0) {
      if (ms_since(begin) > ms) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  FakeTokenizer tokenizer_{numbered_pieces(), {11}};
  ServerMetrics metrics_;
  std::atomic<int> logged_{0};
  std::unique_ptr<EngineService> service_;
  std::unique_ptr<HttpServer> server_;
  asio::io_context context_;
};

TEST_F(HttpServerTest, AnswersAndStreamsTheSame) {
  serve();
  const std::string fields = R"("prompt":[1,2,3],"max_tokens":9,"temperature":0,"ignore_eos":true)";
  const Json whole = json_of(post("/v1/completions", "{" + fields + "}"));
  Request request = make_request({1, 2, 3}, 9);
  request.ignore_eos = true;
  // The engine of the service rests while nothing is asked of it.
  ASSERT_TRUE(idle_within(5000));
  const Answer alone = run_alone(tiny_model(), tokenizer_, request);
  EXPECT_EQ(whole["choices"][0]["text"], alone.text);
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(whole["usage"]["total_tokens"], 12);
  const std::string stream = post("/v1/completions", "{\"stream\":true," + fields + "}");
  EXPECT_THAT(stream, HasSubstr("text/event-stream"));
  std::string text;
  size_t done = std::string::npos;
  for (size_t at = 0; (at = stream.find("data: ", at)) != std::string::npos; ++at) {
    const std::string line = stream.substr(at + 6, stream.find("\n", at) - at - 6);
    if (line == "[DONE]")
      done = at;
    else
      text += parse_json(line, "chunk")["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(text, alone.text);
  EXPECT_NE(done, std::string::npos);
}

// What evaluation programs ask for: the prompt's own log-probabilities, and nothing else.
TEST_F(HttpServerTest, EchoTellsThePromptsLogprobs) {
  serve();
  const Json one = json_of(
      post("/v1/completions", R"({"prompt":[1,2,3],"max_tokens":0,"echo":true,"logprobs":2})"));
  const Json& choice = one["choices"][0];
  EXPECT_EQ(choice["text"], "[1][2][3]");
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["logprobs"]["tokens"], Json::parse(R"(["[1]","[2]","[3]"])"));
  EXPECT_EQ(choice["logprobs"]["text_offset"], Json::parse("[0,3,6]"));
  EXPECT_TRUE(choice["logprobs"]["token_logprobs"][0].is_null());
  EXPECT_TRUE(choice["logprobs"]["top_logprobs"][0].is_null());
  EXPECT_LT(choice["logprobs"]["token_logprobs"][2], 0.0);
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][2].size(), 2u);
  EXPECT_EQ(one["usage"]["completion_tokens"], 0);
  const Json behind = json_of(
      post("/v1/completions",
           R"({"prompt":[1,2,3],"max_tokens":4,"echo":true,"logprobs":2,"ignore_eos":true})"));
  const Json values = behind["choices"][0]["logprobs"]["token_logprobs"];
  ASSERT_EQ(values.size(), 7u);
  EXPECT_EQ(values[2], choice["logprobs"]["token_logprobs"][2]);
}

TEST_F(HttpServerTest, LoadingIsSaid) {
  start({});
  EXPECT_THAT(get("/health"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(get("/v1/models"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(post("/v1/completions", "{}"), HasSubstr("Retry-After"));
}

TEST_F(HttpServerTest, SimpleEndpoints) {
  serve();
  EXPECT_EQ(json_of(get("/health"))["status"], "ok");
  EXPECT_EQ(json_of(get("/v1/models"))["data"][0]["id"], "tiny");
  EXPECT_EQ(json_of(get("/version"))["version"], "1");
  EXPECT_EQ(json_of(post("/detokenize", R"({"tokens":[5,6]})"))["prompt"], "[5][6]");
  EXPECT_THAT(get("/"), HasSubstr("Content-Security-Policy"));
  EXPECT_THAT(get("/?a=b"), HasSubstr("<title>Clover</title>"));
  post("/v1/completions", R"({"prompt":[1],"max_tokens":3,"ignore_eos":true})");
  // What a step did is told after its answers are sent.
  std::string metrics;
  const auto begin = Clock::now();
  do metrics = get("/metrics");
  while (metrics.find("clover:step_seconds_count 3") == std::string::npos &&
         ms_since(begin) < 5000.0);
  for (const char* name :
       {"clover:num_requests_running 0", "clover:num_requests_waiting 0",
        "clover:kv_cache_usage_perc 0", "clover:spec_decode_num_drafts_total 0",
        "clover:spec_decode_num_draft_tokens_total 0",
        "clover:spec_decode_num_accepted_tokens_total 0",
        "clover:time_to_first_token_seconds_count 1", "clover:e2e_request_latency_seconds_count 1",
        "clover:inter_token_latency_seconds_count 2", "clover:step_seconds_count 3"})
    EXPECT_THAT(metrics, HasSubstr(name));
}

TEST_F(HttpServerTest, WhatIsWrongIsNamedAndTheServerLives) {
  ServerOptions options;
  options.max_body = 1000;
  serve(options);
  const std::string json = "Content-Type: application/json\r\nConnection: close\r\n";
  for (const auto& [bytes, status] : std::vector<std::pair<std::string, std::string>>{
           {"nonsense\r\n\r\n", "400"},
           {"GET /x HTTP/1.1\r\nConnection: close\r\n\r\n", "404"},
           {"PUT / HTTP/1.1\r\nConnection: close\r\n\r\n", "405"},
           {"POST /tokenize HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", "415"},
           {"GET / HTTP/1.1\r\nX: " + std::string(20000, 'a') + "\r\n\r\n", "431"},
           {"POST /tokenize HTTP/1.1\r\n" + json + "Content-Length: 1001\r\n\r\n", "413"},
           {"POST /tokenize HTTP/1.1\r\n" + json + "Transfer-Encoding: chunked\r\n\r\n400\r\n" +
                std::string(1024, ' ') + "\r\n0\r\n\r\n",
            "413"},
           {post_bytes("/tokenize", "{"), "400"},
           {post_bytes("/v1/completions", R"({"prompt":[1],"n":0})"), "400"},
           {post_bytes("/v1/completions", R"({"prompt":[1],"model":"x"})"), "404"},
           {post_bytes("/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}]})"),
            "400"}}) {
    EXPECT_THAT(raw(bytes), StartsWith("HTTP/1.1 " + status)) << bytes.substr(0, 60);
    EXPECT_EQ(json_of(get("/health"))["status"], "ok");
  }
  EXPECT_GT(logged_, 10);
}

// C18: both numbers, and the word that programs look for.
TEST_F(HttpServerTest, TooLongPromptsAreRefusedC18) {
  ServerOptions options;
  options.max_body = 1 << 20;
  serve(options);
  std::string ids = "1";
  for (int i = 0; i < 4096; ++i) ids += ",1";
  const Json error = json_of(post("/v1/completions", "{\"prompt\":[" + ids + "]}"))["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("4097"));
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("4096"));
}

// C13: a client that goes away, while it waits for the whole answer, in a stream, and in the queue.
TEST_F(HttpServerTest, GoneClientsFreeTheirSlotC13) {
  serve({}, 1, 4);
  for (const std::string stream : {"true", "false"}) {
    for (const int waiting : {0, 1}) {
      std::vector<asio::ip::tcp::socket> held;
      for (int i = 0; i <= waiting; ++i) {
        held.push_back(connect());
        asio::write(held.back(),
                    asio::buffer(post_bytes("/v1/completions",
                                            R"({"prompt":[1],"max_tokens":4000,"ignore_eos":true,)"
                                            "\"stream\":" +
                                                stream + "}")));
        while (service_->in_flight() != i + 1) std::this_thread::yield();
      }
      for (int left = waiting; left >= 0; --left) {
        held.pop_back();
        const auto begin = Clock::now();
        while (service_->in_flight() > left && ms_since(begin) < 5000.0) std::this_thread::yield();
        EXPECT_EQ(service_->in_flight(), left);
      }
    }
  }
  const EngineStats stats = service_->stats();
  EXPECT_EQ(stats.kv_blocks_free + stats.kv_blocks_cached, stats.kv_blocks);
}

TEST_F(HttpServerTest, AFullQueueIs429) {
  serve({}, 1, 0);
  asio::ip::tcp::socket held = connect();
  asio::write(held, asio::buffer(post_bytes(
                        "/v1/completions",
                        R"({"prompt":[1],"max_tokens":4000,"ignore_eos":true,"stream":true})")));
  while (service_->in_flight() == 0) std::this_thread::yield();
  const std::string answer = post("/v1/completions", R"({"prompt":[1]})");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 429"));
  EXPECT_THAT(answer, HasSubstr("Retry-After: "));
}

// C22
TEST_F(HttpServerTest, TheKeyGuardsEveryRouteButHealthC22) {
  ServerOptions options;
  options.api_key = "secret";
  serve(options);
  for (const std::string path : {"/", "/metrics", "/version", "/v1/models", "/nothing"}) {
    EXPECT_THAT(get(path), StartsWith("HTTP/1.1 401")) << path;
    EXPECT_THAT(get(path, "Authorization: Bearer wrong\r\n"), StartsWith("HTTP/1.1 401"));
    EXPECT_THAT(get(path, "Authorization: Bearer secret\r\n"), Not(StartsWith("HTTP/1.1 401")));
  }
  for (const std::string path :
       {"/tokenize", "/detokenize", "/v1/completions", "/v1/chat/completions"})
    EXPECT_THAT(post(path, "{}"), StartsWith("HTTP/1.1 401")) << path;
  EXPECT_THAT(get("/health"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, SlowClientsAreCutOff) {
  ServerOptions options;
  options.idle = 0.2;
  options.body = 0.2;
  serve(options);
  for (const std::string bytes : {"", "GET /he",
                                  "POST /tokenize HTTP/1.1\r\nContent-Type: "
                                  "application/json\r\nContent-Length: 9\r\n\r\n{"}) {
    const auto begin = Clock::now();
    EXPECT_EQ(raw(bytes), "") << bytes;
    EXPECT_LT(ms_since(begin), 10000.0);
  }
}

// C21: comments while there is nothing to say; a second request on the connection afterwards.
TEST_F(HttpServerTest, WaitingStreamsSaySoC21) {
  ServerOptions options;
  options.keep_alive = 0.05;
  serve(options, 1, 4);
  asio::ip::tcp::socket held = connect();
  asio::write(held, asio::buffer(post_bytes(
                        "/v1/completions",
                        R"({"prompt":[1],"max_tokens":4000,"ignore_eos":true,"stream":true})")));
  while (service_->in_flight() == 0) std::this_thread::yield();
  asio::ip::tcp::socket waiting = connect();
  std::string request = post_bytes("/v1/completions", R"({"prompt":[1],"stream":true})");
  request.replace(request.find("Connection: close\r\n"), 19, "");
  asio::write(waiting, asio::buffer(request));
  std::string seen;
  asio::read_until(waiting, asio::dynamic_buffer(seen), ": waiting");
  held.close();
  asio::read_until(waiting, asio::dynamic_buffer(seen), "[DONE]");
  asio::write(waiting, asio::buffer(std::string("GET /health HTTP/1.1\r\n\r\n")));
  asio::read_until(waiting, asio::dynamic_buffer(seen), "{\"status\":\"ok\"}");
}

TEST_F(HttpServerTest, TooManyConnectionsAreClosed) {
  ServerOptions options;
  options.max_connections = 2;
  serve(options);
  std::vector<asio::ip::tcp::socket> held;
  for (int i = 0; i < 2; ++i) {
    held.push_back(connect());
    asio::write(held.back(), asio::buffer(std::string("GET /health HTTP/1.1\r\n\r\n")));
    std::string seen;
    asio::read_until(held.back(), asio::dynamic_buffer(seen), "ok");
  }
  EXPECT_EQ(get("/health"), "");
  held.clear();
  // The server sees that they closed only when it next reads them, so the answer that counts is
  // the first one there is: a request after it could still meet the other of the two.
  std::string answer;
  const auto begin = Clock::now();
  while (answer.empty() && ms_since(begin) < 10000.0) answer = get("/health");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, AnAddressInUseIsAnError) {
  serve();
  ServerOptions options;
  options.port = server_->port();
  try {
    HttpServer second(options, {});
    FAIL() << "two servers on one port";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(server_->port())));
  }
}

}  // namespace
}  // namespace clover
