// SPDX-License-Identifier: Apache-2.0
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/speculators.h"
#include "cli/verbs.h"
#include "engine/engine_service.h"
#include "serve/api.h"
#include "serve/http_server.h"
#include "serve/metrics.h"

namespace clover {
namespace {

constexpr int64_t kDefaultKvBytes = int64_t{2} << 30;
constexpr double kLastWordsSeconds = 2.0;

struct ServeOptions {
  CommonOptions common;
  SpeculationOptions speculation;
  ServerOptions server;
  std::string model_name;
  std::string key_file;
  int64_t parallel = 32;
  int64_t max_queue = 256;
  int64_t kv_tokens = 0;
  int64_t prefill_rows = 256;
  double stall_ms = 100;
  double drain = 30;
  bool no_prefix_cache = false;
};

std::string read_key(const std::string& path) {
  constexpr size_t kMost = 4096;
  std::string key = read_file(path, kMost);
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
  if (key.empty()) fail(ErrorCode::kInvalidArgument, "--api-key-file {}: has no key", path);
  return key;
}

// One line for each request, without anything of its text.
void log_access(const AccessRecord& record) {
  std::string line =
      fmt::format("{:%FT%TZ} {} {} {} {} {:.1f} ms", fmt::gmtime(std::time(nullptr)), record.peer,
                  record.method, record.target, record.status, record.ms);
  if (!record.id.empty())
    line +=
        fmt::format(" {} {}+{} tokens", record.id, record.prompt_tokens, record.completion_tokens);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20) c = '?';
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int64_t kv_bytes_per_token(const Model& model, DType type) {
  const KvShape shape = model.kv_shape(1, type);
  return 2 * shape.layers * shape.kv_heads * shape.head_dim * (type == DType::kF32 ? 4 : 2);
}

void adjust_engine(const ServeOptions& options, const Model& model, EngineOptions& engine) {
  engine.max_sequences = options.parallel;
  engine.prefill_rows = options.prefill_rows;
  engine.stall_ms = options.stall_ms;
  engine.predictions = true;
  engine.prefix_cache = !options.no_prefix_cache;
  const int64_t context = engine.context == 0 ? model.config().context : engine.context;
  const int64_t affordable = kDefaultKvBytes / kv_bytes_per_token(model, engine.kv_type);
  engine.kv_tokens = options.kv_tokens != 0
                         ? options.kv_tokens
                         : std::clamp(affordable, context, context * options.parallel);
}

std::string served_name(const ServeOptions& options) {
  if (!options.model_name.empty()) return options.model_name;
  std::filesystem::path path = std::filesystem::path(model_path(options.common)).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
}

// Speculators as clients see them: "a/b/package+ngram" without "a/b/", which is none of their
// business.
std::string without_folders(const std::string& speculators) {
  std::string names;
  for (const std::string& name : split_speculators(speculators))
    names += (names.empty() ? "" : "+") + name.substr(name.find_last_of('/') + 1);
  return names;
}

void announce(const ServeOptions& options, const HttpServer& server, const Session& session,
              const EngineStats& stats) {
  if (options.common.quiet) return;
  constexpr double kMib = 1 << 20;
  std::fprintf(
      stderr,
      "clover: %s at %s://%s:%d, %lld requests at once; weights %.0f MiB, KV memory "
      "%.0f MiB for %lld tokens, drafts by %s\n",
      served_name(options).c_str(), options.server.tls_certificate.empty() ? "http" : "https",
      options.server.host.c_str(), server.port(), static_cast<long long>(options.parallel),
      static_cast<double>(session.model->weight_bytes()) / kMib,
      static_cast<double>(stats.kv_bytes) / kMib,
      static_cast<long long>(stats.kv_blocks * kKvBlockTokens), session.speculators.c_str());
}

int serve(ServeOptions options, const std::string& version) {
  if (!options.key_file.empty()) options.server.api_key = read_key(options.key_file);
  check_speculators(options.speculation.speculators);
  // In the order in which they must outlive one another.
  ServerMetrics metrics;
  std::optional<Session> session;
  std::unique_ptr<EngineService> service;
  std::function<void(const AccessRecord&)> log;
  if (!options.common.quiet) log = log_access;
  HttpServer server(options.server, log);
  session = open_session(options.common, options.speculation,
                         [&options](const Model& model, EngineOptions& engine) {
                           adjust_engine(options, model, engine);
                         });
  service = std::make_unique<EngineService>(
      std::move(session->engine),
      ServiceOptions{options.max_queue,
                     [&metrics](const EngineStats& stats, double ms) { metrics.step(stats, ms); }});
  const bool drafts = session->speculators != "none";
  const ApiOptions api{served_name(options), version, without_folders(session->speculators),
                       drafts ? TreePolicy::parse(options.speculation.tree).nodes : 0};
  server.set_api(std::make_shared<Api>(*session->tokenizer, *service, metrics, api));
  announce(options, server, *session, service->stats());
  server.wait_for_signal();
  server.stop_accepting();
  service->drain(std::chrono::milliseconds(static_cast<int64_t>(options.drain * 1000.0)));
  server.finish(kLastWordsSeconds);
  return 0;
}

void add_server_options(CLI::App& verb, ServeOptions& options) {
  ServerOptions& server = options.server;
  verb.add_option("--host", server.host, "address to listen on (default 127.0.0.1: this machine)")
      ->type_name("ADDRESS");
  add_number<int>(verb, "--port", server.port, "port (default 8080; 0: any that is free)", 0,
                  65535);
  CLI::Option* key =
      verb.add_option("--api-key", server.api_key, "key that every request has to bring")
          ->type_name("KEY");
  verb.add_option("--api-key-file", options.key_file, "file with that key")
      ->type_name("FILE")
      ->excludes(key);
  verb.add_option("--model-name", options.model_name,
                  "name that the model is served under (default: its file's)")
      ->type_name("NAME");
  CLI::Option* certificate =
      verb.add_option("--tls-cert", server.tls_certificate,
                      "serve HTTPS with the certificate chain of this PEM file")
          ->type_name("FILE");
  CLI::Option* tls_key = verb.add_option("--tls-key", server.tls_key, "its key, a PEM file")
                             ->type_name("FILE")
                             ->needs(certificate);
  certificate->needs(tls_key);
  add_number<int64_t>(verb, "--max-body", server.max_body,
                      "bytes of a request's body, at most (default 8388608)", 1, int64_t{1} << 32);
  add_number<int64_t>(verb, "--max-connections", server.max_connections,
                      "open connections, at most (default 1024)", 1, 1 << 20);
  add_number<double>(verb, "--idle-timeout", server.idle,
                     "seconds that a connection may wait for its next request (default 60)", 0.1,
                     86400);
  add_number<double>(verb, "--body-timeout", server.body,
                     "seconds for a request's body to arrive (default 60)", 0.1, 86400);
  add_number<double>(verb, "--write-timeout", server.write,
                     "seconds for a client to take a piece of an answer (default 30)", 0.1, 86400);
  add_number<double>(verb, "--keep-alive", server.keep_alive,
                     "seconds between comments in a stream that waits (default 15)", 0.1, 86400);
  add_number<double>(verb, "--drain", options.drain,
                     "seconds that running requests get when the server is stopped (default 30)", 0,
                     86400);
}

}  // namespace

void add_serve(CLI::App& program, Action& action, const std::string& version) {
  CLI::App& verb = *program.add_subcommand(
      "serve", "Serve the model over HTTP, with the OpenAI API and a page to try it.");
  const auto options = std::make_shared<ServeOptions>();
  ServeOptions& o = *options;
  add_model_option(verb, o.common);
  add_speculation_options(verb, o.speculation);
  add_server_options(verb, o);
  add_number<int64_t>(verb, "--parallel", o.parallel, "requests answered at once (default 32)", 1,
                      4096);
  add_number<int64_t>(verb, "--max-queue", o.max_queue,
                      "requests that may wait; more are refused with 429 (default 256)", 0,
                      1 << 20);
  add_number<int64_t>(verb, "--kv-tokens", o.kv_tokens,
                      "tokens of KV memory for all requests together (default 0: enough for all, "
                      "but at most 2 GiB)",
                      0);
  add_number<int64_t>(verb, "--prefill-rows", o.prefill_rows,
                      "prompt tokens of one pass, at most (default 256)", 1, 65536);
  add_number<double>(verb, "--stall-ms", o.stall_ms,
                     "milliseconds that reading prompts may hold up running answers in a step "
                     "(default 100)",
                     0.0, 1e9);
  verb.add_flag("--no-prefix-cache", o.no_prefix_cache,
                "do not keep what was computed for requests that begin alike");
  add_engine_options(verb, o.common);
  add_quiet_option(verb, o.common);
  verb.callback([options, &action, version] {
    action = [options, version] { return serve(*options, version); };
  });
}

}  // namespace clover
