// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "cli/interrupt.h"
#include "cli/model_summary.h"
#include "cli/options.h"
#include "cli/run_display.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "model/fingerprint.h"
#include "train/distiller.h"

namespace clover {
namespace {

constexpr int64_t kDefaultContext = 2048;  // or the model's, where that is less
// Fewer answers than these make a speculator that guesses poorly.
constexpr int64_t kEnoughTokens = 1'000'000;

struct DistillOptions {
  CommonOptions common;
  SpeculationOptions speculation;
  std::vector<std::string> prompts;
  std::vector<std::string> exclude;
  std::string out;
  int64_t self_drawn = 0;
  int64_t max_tokens = 256;
  int64_t batch = 32;
  int64_t shard = 256;
  double greedy_share = 0.7;
  float temperature = 1.0f;
  uint64_t seed = 0;
  bool skip_bad = false;
};

std::string duration(double seconds) {
  const auto minutes = static_cast<int64_t>(std::ceil(seconds / 60));
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  if (minutes < 100) return fmt::format("{} min", minutes);
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

std::string rates(const DistillProgress& progress, double seconds) {
  const int64_t done = progress.done - progress.started;
  std::string speed =
      fmt::format("{:.0f} tokens/s", static_cast<double>(progress.response_tokens) / seconds);
  if (done < 1) return speed;
  return speed + ", " +
         duration(seconds / static_cast<double>(done) *
                  static_cast<double>(progress.tasks - progress.done)) +
         " left";
}

Json prompts_json(const DistillOptions& options, const PromptList& prompts) {
  const PromptCounts& c = prompts.counts();
  return {{"files", options.prompts},
          {"exclude", options.exclude},
          {"records", c.records},
          {"bad", c.bad},
          {"empty", c.empty},
          {"duplicate", c.duplicate},
          {"excluded", c.excluded},
          {"too_long", c.too_long},
          {"cut_to_one_turn", c.cut},
          {"kept", c.kept},
          {"self_drawn", prompts.self_drawn()}};
}

std::string prompts_text(const PromptList& prompts) {
  const PromptCounts& c = prompts.counts();
  std::string text = fmt::format("{} prompts from files", c.kept);
  const auto add = [&](int64_t count, const char* what) {
    if (count > 0) text += fmt::format(", {} {}", count, what);
  };
  add(prompts.self_drawn(), "to be drawn");
  add(c.excluded, "left out as excluded");
  add(c.duplicate, "as duplicates");
  add(c.too_long, "as too long for the context");
  add(c.empty, "as empty");
  add(c.bad, "as bad records");
  add(c.cut, "cut to their first turn (the model has no chat template)");
  return text;
}

DistillSettings make_settings(const DistillOptions& options, const Session& session) {
  const auto checkpoint = open_checkpoint(model_path(options.common));
  return {.target = session.model->config().name,
          .fingerprint = model_fingerprint(*checkpoint),
          .vocab = session.model->config().vocab,
          .seed = options.seed,
          .max_tokens = options.max_tokens,
          .greedy_share = options.greedy_share,
          .temperature = options.temperature,
          .context = session.engine->context()};
}

ExclusionSet read_exclusion(const DistillOptions& options) {
  ExclusionSet exclusion;
  for (const std::string& file : options.exclude) exclusion.add_file(file);
  if (options.exclude.empty())
    note(
        "warning: no --exclude FILE: if questions of an evaluation are among the prompts, its "
        "results will be worth nothing");
  return exclusion;
}

void check_space(const DistillOptions& options, const Distiller& distiller) {
  std::error_code error;
  const auto space = std::filesystem::space(options.out, error);
  if (error) return;  // some file systems do not say; a full disk is met when it comes
  const uint64_t needed = distiller.estimated_bytes();
  if (!options.common.quiet)
    note(fmt::format("at most {} on the disk, {} free", format_bytes(static_cast<double>(needed)),
                     format_bytes(static_cast<double>(space.available))));
  check_disk(options.out, needed, space.available);
}

Json result_json(const Session& session, const DistilledFolder& folder,
                 const DistillProgress& progress, double seconds) {
  const DistilledCounts c = folder.counts();
  return {{"folder", folder.path()},
          {"tasks", progress.tasks},
          {"done", c.tasks},
          {"shards", c.shards},
          {"samples", c.samples},
          {"tokens", c.tokens},
          {"response_tokens", c.response_tokens},
          {"this_run",
           {{"seconds", seconds},
            {"engine_seconds", progress.step_ms / 1000},
            {"prompt_tokens", progress.prompt_tokens},
            {"response_tokens", progress.response_tokens},
            {"tokens_per_second",
             seconds > 0 ? static_cast<double>(progress.response_tokens) / seconds : 0.0}}},
          {"machine", machine_json(session)},
          {"model", {{"name", session.model->config().name}}}};
}

// Runs what is missing; the exit status.
int run_distiller(const DistillOptions& options, const Session& session, Distiller& distiller,
                  const DistilledFolder& folder) {
  DistillProgress last;
  last.tasks = folder.counts().tasks;
  RunDisplay display("distilling", options.common.quiet);
  const InterruptWatch interrupt;
  bool told = false;
  const bool all = distiller.run([&](const DistillProgress& progress) {
    last = progress;
    if (interrupt.interrupted() && !told) {
      told = true;
      display.say("finishing the shard; Ctrl-C again stops at once and loses it");
    }
    display.show(static_cast<double>(progress.done) / static_cast<double>(progress.tasks),
                 progress.stopping ? "finishing the shard" : rates(progress, display.seconds()),
                 [&] {
                   return fmt::format("{} of {} prompts, {} tokens, ", progress.done,
                                      progress.tasks, progress.response_tokens);
                 });
    return !interrupt.interrupted();
  });
  const double seconds = display.seconds();
  display.clear();
  const DistilledCounts counts = folder.counts();
  if (!options.common.quiet)
    note(fmt::format(
        "{}: {} samples of {} prompts, {} tokens of answers, in {} shards; this run "
        "{:.0f} tokens/s",
        folder.path(), counts.samples, counts.tasks, counts.response_tokens, counts.shards,
        seconds > 0 ? static_cast<double>(last.response_tokens) / seconds : 0.0));
  if (all && counts.response_tokens < kEnoughTokens && !options.common.quiet)
    note(fmt::format("note: a good speculator takes {} tokens of answers and more", kEnoughTokens));
  if (!options.common.json.empty())
    write_json(options.common.json, result_json(session, folder, last, seconds));
  if (!all && !options.common.quiet) note("stopped; the same command goes on");
  return all ? 0 : kInterrupted;
}

int distill(DistillOptions options) {
  const ExclusionSet exclusion = read_exclusion(options);
  if (options.common.context == 0) {
    const auto checkpoint = open_checkpoint(model_path(options.common));
    options.common.context = std::min(kDefaultContext, read_model_config(*checkpoint).context);
  }
  const int64_t context = options.common.context;
  if (options.max_tokens >= context)
    fail(ErrorCode::kInvalidArgument,
         "-n {}: an answer of that length leaves no room for a prompt in a context of {}",
         options.max_tokens, context);
  const Session session =
      open_session(options.common, options.speculation,
                   [&](const Model&, EngineOptions& o) { o.max_sequences = options.batch; });
  const PromptMaker maker(*session.tokenizer);
  PromptList prompts(maker, exclusion, {options.skip_bad, context - options.max_tokens});
  for (const std::string& file : options.prompts) prompts.add_file(file);
  if (options.self_drawn > 0) maker.user_prefix();  // says now if it cannot be done
  prompts.add_self_drawn(options.self_drawn);
  if (!options.common.quiet) note(prompts_text(prompts));
  if (prompts.tasks().empty()) fail(ErrorCode::kInvalidArgument, "no prompt is left to answer");
  DistilledFolder folder(options.out, make_settings(options, session));
  folder.set_prompts(prompts_json(options, prompts));
  Distiller distiller(*session.engine, prompts, folder, options.batch, options.shard);
  check_space(options, distiller);
  return run_distiller(options, session, distiller, folder);
}

void add_prompt_options(CLI::App& verb, DistillOptions& o) {
  add_list(verb, "--prompts", o.prompts,
           "JSON lines with prompt, turns, conversations or messages, or a JSON list of them "
           "(ShareGPT); may be gzip's (repeatable)")
      ->type_name("FILE");
  add_number<int64_t>(verb, "--self", o.self_drawn,
                      "prompts that the model draws itself, behind those of the files", 0,
                      100'000'000);
  add_list(verb, "--exclude", o.exclude,
           "leave out prompts that share ten words in a row with one of this file (repeatable)")
      ->type_name("FILE");
  verb.add_flag("--skip-bad", o.skip_bad, "leave out records that cannot be read, and count them");
}

void add_answer_options(CLI::App& verb, DistillOptions& o) {
  add_number<int64_t>(verb, "-n,--max-tokens", o.max_tokens,
                      "tokens of an answer, at most (default 256)", 1, 1'000'000);
  add_number<double>(verb, "--greedy-share", o.greedy_share,
                     "share of the conversations that are answered greedily (default 0.7)", 0, 1);
  add_number<float>(verb, "--temp", o.temperature, "temperature of the others (default 1)", 0, 100);
  add_number<uint64_t>(verb, "--seed", o.seed, "seed of all draws (default 0)");
  add_number<int64_t>(verb, "--batch", o.batch, "conversations at once (default 32)", 1, 4096);
  add_number<int64_t>(verb, "--shard", o.shard, "prompts of one shard (default 256)", 1, 1 << 20);
}

}  // namespace

void add_distill(CLI::App& program, Action& action) {
  CLI::App& verb =
      *program.add_subcommand("distill", "Has the model write training data for a speculator.");
  const auto options = std::make_shared<DistillOptions>();
  DistillOptions& o = *options;
  o.speculation.speculators = "none";
  add_model_option(verb, o.common);
  add_prompt_options(verb, o);
  verb.add_option("--out", o.out, "folder of the data; what it holds already is not done again")
      ->required()
      ->type_name("DIR");
  add_answer_options(verb, o);
  add_speculation_options(verb, o.speculation);
  add_engine_options(verb, o.common);
  add_json_option(verb, o.common);
  add_quiet_option(verb, o.common);
  verb.callback([options, &action] {
    if (options->prompts.empty() && options->self_drawn == 0)
      throw CLI::RequiredError("--prompts or --self");
    action = [options] { return distill(*options); };
  });
}

}  // namespace clover
