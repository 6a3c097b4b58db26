// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "measure/load_run.h"
#include "measure/questions.h"
#include "measure/spread.h"

namespace clover {
namespace {

struct ServeBenchVerb {
  CommonOptions common;
  std::string url = "http://127.0.0.1:8080/v1";
  std::string key;
  std::string served_model;
  std::string questions;
  std::vector<int64_t> clients = {1};
  std::vector<std::string> speculation = {"server"};
  double rate = 0;
  int64_t requests = 64;
  int64_t repeats = 1;
  int64_t max_tokens = 128;
  double temperature = 0;
  uint64_t seed = 0;
  bool ignore_eos = false;
  GoodputLimits limits;
};

// One kind of run, and what its repeats gave.
struct LoadCase {
  int64_t clients = 0;
  std::string speculation;
  std::vector<std::string> texts = {};  // by question, of the first complete answer
  Json runs = Json::array();
  int64_t failed = 0;
};

std::vector<std::string> request_bodies(const ServeBenchVerb& verb, const std::string& speculation,
                                        const std::vector<Question>& questions) {
  std::vector<std::string> bodies;
  for (size_t i = 0; i < questions.size(); ++i) {
    Json body = {
        {"messages", Json::array({{{"role", "user"}, {"content", questions[i].turns[0]}}})},
        {"max_tokens", verb.max_tokens},
        {"temperature", verb.temperature},
        {"seed", verb.seed + i},
        {"stream", true},
        {"stream_options", {{"include_usage", true}}}};
    if (!verb.served_model.empty()) body["model"] = verb.served_model;
    if (verb.ignore_eos) body["ignore_eos"] = true;
    if (speculation != "server") body["speculation"] = speculation;
    bodies.push_back(json_text(body));
  }
  return bodies;
}

void take_run(const LoadRun& run, const ServeBenchVerb& verb, LoadCase& one) {
  for (const LoadedRequest& request : run.requests) {
    if (!request.whole) {
      ++one.failed;
      continue;
    }
    std::string& text = one.texts[static_cast<size_t>(request.body)];
    if (text.empty()) text = request.text;
  }
  one.runs.push_back(load_json(run, verb.limits));
}

// Greedy or seeded text must not depend on speculation; questions that only one has count for
// nothing.
int64_t other_texts(const LoadCase& a, const LoadCase& b) {
  int64_t count = 0;
  for (size_t i = 0; i < a.texts.size(); ++i)
    count += !a.texts[i].empty() && !b.texts[i].empty() && a.texts[i] != b.texts[i] ? 1 : 0;
  return count;
}

std::vector<double> figures(const LoadCase& one, const char* name) {
  std::vector<double> values;
  for (const Json& run : one.runs) values.push_back(run[name].get<double>());
  return values;
}

std::string tail_text(const LoadCase& one, const char* name) {
  std::string text;
  for (const char* p : {"p50", "p95", "p99"}) {
    std::vector<double> values;
    for (const Json& run : one.runs)
      if (!run[name].is_null()) values.push_back(run[name][p].get<double>());
    text += fmt::format("{}{:.1f}", text.empty() ? "" : "/", quantile(values, 0.5));
  }
  return text;
}

Json case_json(const LoadCase& one, const ServeBenchVerb& verb, int64_t others) {
  return {{"clients", verb.rate > 0 ? Json() : Json(one.clients)},
          {"rate", verb.rate > 0 ? Json(verb.rate) : Json()},
          {"speculation", one.speculation},
          {"tokens_per_second", spread_json(figures(one, "tokens_per_second"))},
          {"requests_per_second", spread_json(figures(one, "requests_per_second"))},
          {"failed", one.failed},
          {"other_texts_than_first", others},
          {"runs", one.runs}};
}

void print_case(const LoadCase& one, const ServeBenchVerb& verb, const LoadCase& first) {
  const std::vector<double> speed = figures(one, "tokens_per_second");
  const double base = quantile(figures(first, "tokens_per_second"), 0.5);
  const Json spread = spread_json(speed);
  std::vector<double> shares;
  for (const Json& run : one.runs) shares.push_back(run["goodput"]["share"].get<double>());
  const std::string load =
      verb.rate > 0 ? fmt::format("{}/s", verb.rate) : fmt::format("{}", one.clients);
  fmt::print(
      "| {} | {} | {:.1f} [{:.1f}-{:.1f}] | {:.2f} | {:.2f} | {} | {} | {} | {} | {:.0f} % | {} "
      "|\n",
      load, one.speculation, spread["median"].get<double>(), spread["min"].get<double>(),
      spread["max"].get<double>(), base > 0 ? quantile(speed, 0.5) / base : 0.0,
      quantile(figures(one, "extra_tokens_per_step"), 0.5), tail_text(one, "ttft_ms"),
      tail_text(one, "tpot_ms"), tail_text(one, "longest_gap_ms"), tail_text(one, "total_ms"),
      100.0 * quantile(shares, 0.5), one.failed);
}

int run_serve_bench(const ServeBenchVerb& verb) {
  std::optional<AtomicFile> json;
  if (!verb.common.json.empty()) json.emplace(verb.common.json);
  const std::vector<Question> questions = read_questions(verb.questions);
  LoadOptions load;
  std::string base;
  parse_server_url(verb.url, load, base);
  load.path = base + "/chat/completions";
  load.key = verb.key;
  load.requests = verb.requests;
  load.rate = verb.rate;
  load.seed = verb.seed;
  std::vector<LoadCase> cases;
  for (const int64_t clients : verb.rate > 0 ? std::vector<int64_t>{1} : verb.clients)
    for (const std::string& speculation : verb.speculation)
      cases.push_back({.clients = clients,
                       .speculation = speculation,
                       .texts = std::vector<std::string>(questions.size())});
  ProgressBar bar("measuring", verb.common.quiet);
  const auto all = static_cast<double>(cases.size()) * static_cast<double>(verb.repeats);
  double done = 0;
  for (int64_t repeat = 0; repeat < verb.repeats; ++repeat)
    for (LoadCase& one : cases) {
      bar.update(done++ / all);
      load.bodies = request_bodies(verb, one.speculation, questions);
      load.clients = one.clients;
      take_run(run_load(load), verb, one);
    }
  bar.clear();
  fmt::print(
      "| clients | speculation | tokens/s [min-max] | over first | extra/step | TTFT ms "
      "p50/95/99 | TPOT ms | longest gap ms | total ms | good | failed |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|\n");
  Json results = Json::array();
  int64_t failed = 0, others = 0;
  const size_t width = verb.speculation.size();
  for (size_t i = 0; i < cases.size(); ++i) {
    const LoadCase& first = cases[i / width * width];
    const int64_t different = other_texts(first, cases[i]);
    print_case(cases[i], verb, first);
    results.push_back(case_json(cases[i], verb, different));
    failed += cases[i].failed;
    others += different;
  }
  if (others > 0)
    fmt::print("{} answers have another text than with {}\n", others, verb.speculation[0]);
  if (json) {
    json->write(json_text({{"url", verb.url},
                           {"questions", questions.size()},
                           {"requests", verb.requests},
                           {"max_tokens", verb.max_tokens},
                           {"temperature", verb.temperature},
                           {"client_cpu", cpu_name()},
                           {"results", std::move(results)}}));
    json->commit();
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace

void add_bench_serve(CLI::App& bench, Action& action) {
  CLI::App& verb = *bench.add_subcommand(
      "serve", "Load on a running server with the OpenAI API: throughput and latencies.");
  const auto options = std::make_shared<ServeBenchVerb>();
  ServeBenchVerb& o = *options;
  verb.add_option("--url", o.url, "of the API (default http://127.0.0.1:8080/v1)")
      ->type_name("URL");
  verb.add_option("--api-key", o.key, "key to send")->type_name("KEY");
  verb.add_option("--model-name", o.served_model, "model to ask for (default: none is named)")
      ->type_name("NAME");
  verb.add_option("--questions", o.questions, "JSON lines with turns (as Spec-Bench) or prompt")
      ->required()
      ->type_name("FILE");
  verb.add_option("--clients", o.clients,
                  "closed loop: clients that each wait for their answer (default 1)")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->type_name("N,…");
  add_number<double>(verb, "--rate", o.rate,
                     "open loop: requests a second, with Poisson arrivals (default 0: closed)", 0,
                     1e6);
  verb.add_option("--speculation", o.speculation,
                  "sent as 'speculation', runs interleaved: off, auto, or server to send nothing "
                  "(default server)")
      ->delimiter(',')
      ->check(CLI::IsMember({"server", "off", "auto"}))
      ->type_name("WAY,…");
  add_number<int64_t>(verb, "--requests", o.requests, "requests of a run (default 64)", 1, 1 << 24);
  add_number<int64_t>(verb, "--repeats", o.repeats, "interleaved repeats (default 1)", 1, 1000);
  add_number<int64_t>(verb, "-n", o.max_tokens, "tokens of an answer, at most (default 128)", 1,
                      1 << 20);
  add_number<double>(verb, "--temp", o.temperature, "temperature (default 0)", 0, 2);
  add_number<uint64_t>(verb, "--seed", o.seed, "seed of arrivals and answers (default 0)");
  verb.add_flag("--ignore-eos", o.ignore_eos,
                "run every answer to its full length (unfit for judging drafts)");
  add_number<double>(verb, "--good-ttft", o.limits.ttft,
                     "milliseconds to the first text of a good answer (default 0: any)", 0, 1e9);
  add_number<double>(verb, "--good-tpot", o.limits.tpot,
                     "milliseconds a token of a good answer (default 0: any)", 0, 1e9);
  add_json_option(verb, o.common);
  add_quiet_option(verb, o.common);
  verb.callback([options, &action] { action = [options] { return run_serve_bench(*options); }; });
}

}  // namespace clover
