// SPDX-License-Identifier: Apache-2.0
#include "measure/load_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace clover {
namespace {

using ::testing::HasSubstr;

TEST(LoadRun, Urls) {
  LoadOptions options;
  std::string base;
  parse_server_url("http://example:81/v1/", options, base);
  EXPECT_EQ(options.host, "example");
  EXPECT_EQ(options.port, 81);
  EXPECT_EQ(base, "/v1");
  parse_server_url("http://example", options, base);
  EXPECT_EQ(options.port, 80);
  EXPECT_EQ(base, "");
  for (const char* bad : {"", "example", "https://x", "http://", "http://:80",
                          "http://x:", "http://x:0", "http://x:65536", "http://x:8a"})
    EXPECT_THROW(parse_server_url(bad, options, base), Error) << bad;
}

// A Poisson process: ascending, the right rate, and gaps whose spread equals their mean.
TEST(LoadRun, ArrivalsArePoisson) {
  constexpr int64_t kCount = 20000;
  const std::vector<double> times = arrivals(50.0, 3, kCount);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_NEAR(times.back() / kCount, 20.0, 0.5);
  double square = 0.0, last = 0.0;
  for (const double time : times) {
    square += (time - last) * (time - last);
    last = time;
  }
  EXPECT_NEAR(square / kCount, 2 * 20.0 * 20.0, 40.0);
  EXPECT_EQ(times, arrivals(50.0, 3, kCount));
  EXPECT_NE(times, arrivals(50.0, 4, kCount));
}

// I1, I2: figures by hand.
TEST(LoadRun, FiguresByHandI1I2) {
  LoadRun run;
  run.seconds = 2.0;
  LoadedRequest request;
  request.status = 200;
  request.whole = true;
  request.prompt_tokens = 5;
  request.completion_tokens = 21;
  request.first_ms = 100.0;
  request.last_ms = 300.0;
  request.total_ms = 310.0;
  request.gap_ms = 30.0;
  request.steps = 10;
  request.accepted = 5;
  run.requests.push_back(request);
  request.first_ms = 200.0;
  request.last_ms = 1000.0;
  request.total_ms = 1010.0;
  run.requests.push_back(request);
  request.whole = false;
  request.status = 429;
  run.requests.push_back(request);
  const Json json = load_json(run, {.ttft = 150.0, .tpot = 50.0});
  EXPECT_EQ(json["answered"], 2);
  EXPECT_EQ(json["errors"]["status 429"], 1);
  EXPECT_DOUBLE_EQ(json["tokens_per_second"].get<double>(), 21.0);
  EXPECT_DOUBLE_EQ(json["requests_per_second"].get<double>(), 1.0);
  EXPECT_DOUBLE_EQ(json["ttft_ms"]["p50"].get<double>(), 150.0);
  EXPECT_DOUBLE_EQ(json["tpot_ms"]["p50"].get<double>(), 25.0);  // of 10 and 40
  EXPECT_DOUBLE_EQ(json["goodput"]["share"].get<double>(), 1.0 / 3.0);
  EXPECT_DOUBLE_EQ(json["extra_tokens_per_step"].get<double>(), 0.5);
}

TEST(LoadRun, NobodyListens) {
  LoadOptions options;
  options.port = 1;
  options.bodies = {"{}"};
  options.requests = 2;
  try {
    run_load(options);
    FAIL() << "an answer from nobody";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot connect"));
  }
}

}  // namespace
}  // namespace clover
