// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/progress.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "measure/decode_bench.h"
#include "measure/kernel_bench.h"
#include "measure/wrong_speculator.h"

namespace clover {
namespace {

struct KernelVerb {
  CommonOptions common;
  KernelBenchOptions bench;
};

struct DecodeVerb {
  CommonOptions common;
  DecodeBenchOptions bench;
  QuestionOptions questions;
  std::vector<std::string> methods = {"none", kDefaultSpeculators};
};

// "SPECULATORS" or "SPECULATORS@TREE"; "wrong" is the worst case.
DecodeMethod parse_method(const std::string& text, const SpeculatorTarget& target) {
  const size_t at = text.rfind('@');
  DecodeMethod method;
  method.name = text;
  const std::string speculators = text.substr(0, at);
  if (speculators == "wrong") {
    method.speculators = {[](const SpeculatorHost& host) {
      return std::make_unique<WrongSpeculator>(host.target->config().vocab);
    }};
  } else {
    method.speculators = open_speculators(speculators, target);
  }
  if (at != std::string::npos) method.tree = TreePolicy::parse(text.substr(at + 1));
  return method;
}

void finish(const CommonOptions& common, const Session& session, Json result) {
  if (common.json.empty()) return;
  add_origin(result, session);
  write_json(common.json, result);
}

int run_kernels(const KernelVerb& verb) {
  const Session session = open_session(verb.common);
  const Json result = bench_kernels(*session.model, verb.bench);
  const Json& peak = result["peak"];
  std::string text = fmt::format(
      "{}\npeak: {:.1f} GB/s read, {:.0f} GMAC/s in 8 bits, {:.0f} GMAC/s in float32\n\n"
      "| weights | rows | ms [min-max] | over one row | GB/s | GMAC/s | of read peak | of MAC peak "
      "|\n"
      "|---|---|---|---|---|---|---|---|\n",
      session.model->backend().description(), peak["read_gbytes_per_s"].get<double>(),
      peak["int8_gmac_per_s"].get<double>(), peak["float_gmac_per_s"].get<double>());
  for (const Json& c : result["cost"])
    text += fmt::format(
        "| {} | {} | {:.2f} [{:.2f}-{:.2f}] | {:.2f} | {:.1f} | {:.0f} | {:.0f} % | {:.0f} % |\n",
        c["type"].get<std::string>(), c["rows"].get<int64_t>(), c["ms"]["median"].get<double>(),
        c["ms"]["min"].get<double>(), c["ms"]["max"].get<double>(),
        c["ratio_to_one_row"].get<double>(), c["gbytes_per_s"].get<double>(),
        c["gmac_per_s"].get<double>(), 100 * c["share_of_read_peak"].get<double>(),
        100 * c["share_of_mac_peak"].get<double>());
  std::fputs(text.c_str(), stdout);
  finish(verb.common, session, result);
  return 0;
}

std::string tails(const Json& t) {
  if (t.is_null()) return "-";
  return fmt::format("{:.2f}/{:.2f}/{:.2f}", t["p50"].get<double>(), t["p95"].get<double>(),
                     t["p99"].get<double>());
}

int run_decode(const DecodeVerb& verb) {
  const std::vector<Question> questions = open_questions(verb.questions);
  const Session session = open_session(verb.common);
  DecodeBenchOptions bench = verb.bench;
  bench.methods.clear();
  for (const std::string& method : verb.methods)
    bench.methods.push_back(parse_method(method, speculator_target(verb.common, session)));
  bench.engine = engine_options(verb.common);
  ProgressBar bar("measuring", verb.common.quiet);
  Json result = bench_decode(session.model, *session.tokenizer, questions, bench,
                             [&](int64_t done, int64_t all) {
                               bar.update(static_cast<double>(done) / static_cast<double>(all));
                             });
  bar.clear();
  std::string text =
      "| method | batch | category | tokens/s [min-max] | over none | extra/step | TTFT ms "
      "p50/95/99 "
      "| TPOT ms | draft ms | verify ms | sample ms | other ms |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Json& r : result["results"]) {
    const Json& speed = r["tokens_per_second"];
    text += fmt::format(
        "| {} | {} | {} | {:.1f} [{:.1f}-{:.1f}] | {:.2f} | {:.2f} | {} | {} | {} | {} | {} | {} "
        "|\n",
        r["method"].get<std::string>(), r["batch"].get<int64_t>(), r["category"].get<std::string>(),
        speed["median"].get<double>(), speed["min"].get<double>(), speed["max"].get<double>(),
        r["speedup_over_none"]["median"].get<double>(), r["extra_tokens_per_step"].get<double>(),
        tails(r["ttft_ms"]), tails(r["tpot_ms"]), tails(r["step_ms"]["draft"]),
        tails(r["step_ms"]["verify"]), tails(r["step_ms"]["sample"]), tails(r["step_ms"]["other"]));
  }
  for (const Json& r : result["results"])
    if (!r["prompt_tokens_per_second"].is_null() && r["category"] == "all")
      text += fmt::format("prompt of {} tokens ({}, batch {}): {:.0f} tokens/s [{:.0f}-{:.0f}]\n",
                          bench.prompt_tokens, r["method"].get<std::string>(),
                          r["batch"].get<int64_t>(),
                          r["prompt_tokens_per_second"]["median"].get<double>(),
                          r["prompt_tokens_per_second"]["min"].get<double>(),
                          r["prompt_tokens_per_second"]["max"].get<double>());
  int other_texts = 0;
  for (const Json& r : result["results"]) {
    if (r["same_text_as_none"]) continue;
    ++other_texts;
    text += fmt::format("NOT LOSSLESS: {} (batch {}, {}) gave other tokens than none\n",
                        r["method"].get<std::string>(), r["batch"].get<int64_t>(),
                        r["category"].get<std::string>());
  }
  std::fputs(text.c_str(), stdout);
  result["options"]["question_set"] = questions_json(verb.questions);
  finish(verb.common, session, result);
  return other_texts == 0 ? 0 : 1;
}

void add_kernels(CLI::App& bench, Action& action) {
  CLI::App& verb = *bench.add_subcommand(
      "kernels",
      "The cost of 1 to n rows over the model's own weights, beside the machine's peak.");
  const auto options = std::make_shared<KernelVerb>();
  add_model_option(verb, options->common);
  add_engine_options(verb, options->common);
  add_json_option(verb, options->common);
  add_quiet_option(verb, options->common);
  verb.add_option("--rows", options->bench.rows, "row counts, separated by commas")
      ->delimiter(',')
      ->type_name("N,…");
  add_number<int64_t>(verb, "--repeats", options->bench.repeats, "interleaved repeats", 1, 1000);
  add_number<int64_t>(verb, "--step-context", options->bench.context,
                      "tokens in the KV cache of a timed step", 0, 1 << 20);
  verb.callback([options, &action] { action = [options] { return run_kernels(*options); }; });
}

void add_decode(CLI::App& bench, Action& action) {
  CLI::App& verb = *bench.add_subcommand(
      "decode", "Speed of generation on a question file, methods interleaved.");
  const auto options = std::make_shared<DecodeVerb>();
  add_model_option(verb, options->common);
  add_engine_options(verb, options->common);
  add_json_option(verb, options->common);
  add_quiet_option(verb, options->common);
  DecodeBenchOptions& b = options->bench;
  add_question_options(verb, options->questions);
  verb.add_option("--methods", options->methods,
                  "what drafts, as -s, each with @TREE if not auto; wrong: the worst case "
                  "(default none,default)")
      ->delimiter(',')
      ->type_name("NAME,…");
  verb.add_option("--batch", b.batches, "sequences at once, separated by commas")
      ->delimiter(',')
      ->type_name("N,…");
  add_number<int64_t>(verb, "--repeats", b.repeats, "interleaved repeats", 1, 1000);
  add_number<int64_t>(verb, "-n", b.max_tokens, "tokens of an answer, at most", 2, 1 << 20);
  add_number<int64_t>(verb, "--prompt-tokens", b.prompt_tokens,
                      "also time a prompt of this many tokens", 0, 1 << 20);
  verb.add_flag("--logprobs", b.logprobs,
                "compare log-probabilities with those of none as well, bit for bit");
  verb.add_flag("--ignore-eos", b.ignore_eos, "run every answer to its full length");
  add_sampling_options(verb, b.sampling);
  verb.callback([options, &action] { action = [options] { return run_decode(*options); }; });
}

}  // namespace

void add_bench(CLI::App& program, Action& action) {
  CLI::App& bench = *program.add_subcommand("bench", "Measures speed.");
  bench.require_subcommand(1);
  add_kernels(bench, action);
  add_decode(bench, action);
  add_bench_serve(bench, action);
}

}  // namespace clover
