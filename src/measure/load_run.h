// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace clover {

// Requests for a server with the OpenAI API, and how they come.
struct LoadOptions {
  std::string host = "127.0.0.1";
  int port = 8080;
  std::string path = "/v1/chat/completions";
  std::string key;                  // empty: none is sent
  std::vector<std::string> bodies;  // JSON of the requests, used in turn
  int64_t requests = 0;             // in all
  int64_t clients = 1;              // closed loop: each sends its next request after an answer
  double rate = 0.0;                // > 0: open loop, requests a second with Poisson arrivals
  uint64_t seed = 0;                // of the arrivals
  double timeout = 600;             // seconds of a request
};

// What became of one request. Milliseconds count from when it was due, so that a server that falls
// behind in an open loop shows it.
struct LoadedRequest {
  int64_t body = 0;    // which of LoadOptions::bodies
  int status = 0;      // 0: no answer
  bool whole = false;  // a complete answer with its usage
  std::string error;
  std::string text;
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t steps = 0;  // of the target, where the server tells
  int64_t accepted = 0;
  double due_ms = 0;  // since the run began
  double first_ms = -1;
  double last_ms = -1;
  double total_ms = 0;
  double gap_ms = 0;  // the longest between two chunks with text
};

struct LoadRun {
  std::vector<LoadedRequest> requests;
  double seconds = 0;
};

// "http://HOST[:PORT][/BASE]" into host, port and base path ("" or "/v1"). Error(kInvalidArgument).
void parse_server_url(const std::string& url, LoadOptions& options, std::string& base);
// Arrival times in milliseconds of an open loop: a function of rate, seed and number.
std::vector<double> arrivals(double rate, uint64_t seed, int64_t count);
// Sends the requests. Failures are results, not errors; Error(kIo) when no request got an answer.
LoadRun run_load(const LoadOptions& options);

// Limits of a good answer, milliseconds; 0: none.
struct GoodputLimits {
  double ttft = 0;
  double tpot = 0;
};
// Throughput, TTFT, TPOT, end-to-end times with p50, p95 and p99, goodput. TTFT is from when a
// request was due to its first text; TPOT is (last text - first text) / (tokens - 1).
Json load_json(const LoadRun& run, const GoodputLimits& limits);

}  // namespace clover
