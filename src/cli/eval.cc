// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "base/progress.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/speculators.h"
#include "cli/verbs.h"
#include "measure/draft_eval.h"

namespace clover {
namespace {

struct EvalVerb {
  CommonOptions common;
  DraftEvalOptions eval;
  QuestionOptions questions;
  std::string speculators = kDefaultSpeculators;
};

std::string table(const Json& result) {
  std::string text =
      "| tree | extra tokens/step | drafted/step | accepted of drafted | by depth |\n"
      "|---|---|---|---|---|\n";
  for (const Json& tree : result["trees"]) {
    std::string depths;
    for (size_t d = 0; d < tree["per_depth"].size() && d < 5; ++d)
      depths += fmt::format("{}{:.2f}", d > 0 ? " " : "", tree["per_depth"][d].get<double>());
    text += fmt::format(
        "| {}{} | {:.2f} | {:.1f} | {:.0f} % | {} |\n", tree["nodes"].get<int64_t>(),
        tree["depth"].is_null() ? "" : "x" + tree["depth"].dump(),
        tree["extra_tokens_per_step"].get<double>(), tree["drafted_per_step"].get<double>(),
        100 * tree["acceptance_rate"].get<double>(), depths);
  }
  text += "\nextra tokens/step by category:\n";
  for (const auto& [category, unused] : result["trees"].back()["by_category"].items()) {
    text += fmt::format("{:16}", category);
    for (const Json& tree : result["trees"])
      text += fmt::format(" {:5.2f}", tree["by_category"][category].get<double>());
    text += "\n";
  }
  text += "\n| predicted | candidates | mean | right |\n|---|---|---|---|\n";
  for (const Json& tenth : result["calibration"])
    text += fmt::format("| {:.1f}-{:.1f} | {} | {:.3f} | {:.3f} |\n", tenth["low"].get<double>(),
                        tenth["high"].get<double>(), tenth["count"].get<int64_t>(),
                        tenth["predicted"].get<double>(), tenth["observed"].get<double>());
  return text;
}

int eval(const EvalVerb& verb) {
  const std::vector<Question> questions = open_questions(verb.questions);
  check_speculators(verb.speculators);
  const Session session = open_session(verb.common);
  DraftEvalOptions options = verb.eval;
  options.engine = engine_options(verb.common);
  const SpeculatorTarget target = speculator_target(verb.common, session);
  const std::string speculators = resolve_speculators(verb.speculators, target);
  options.engine.speculators = open_speculators(speculators, target);
  ProgressBar bar("judging", verb.common.quiet);
  Json result = eval_drafts(session.model, *session.tokenizer, questions, options,
                            [&](int64_t done, int64_t all) {
                              bar.update(static_cast<double>(done) / static_cast<double>(all));
                            });
  bar.clear();
  std::fputs(table(result).c_str(), stdout);
  if (verb.common.json.empty()) return 0;
  result["speculator"] = speculators;
  result["options"]["question_set"] = questions_json(verb.questions);
  add_origin(result, session);
  write_json(verb.common.json, result);
  return 0;
}

}  // namespace

void add_eval(CLI::App& program, Action& action) {
  CLI::App& verb = *program.add_subcommand(
      "eval", "How good a speculator's drafts are: by size of tree, depth and category.");
  const auto options = std::make_shared<EvalVerb>();
  add_model_option(verb, options->common);
  verb.add_option("-s,--speculator", options->speculators,
                  "what drafts, as for generate and with its default")
      ->type_name("NAME|PATH");
  add_question_options(verb, options->questions);
  verb.add_option("--nodes", options->eval.nodes, "sizes of tree, separated by commas")
      ->delimiter(',')
      ->type_name("N,…");
  verb.add_option("--depths", options->eval.depths,
                  "also every size with drafts no deeper than each of these")
      ->delimiter(',')
      ->type_name("N,…");
  add_number<int64_t>(verb, "-n", options->eval.max_tokens, "tokens of an answer, at most", 2,
                      1 << 20);
  add_sampling_options(verb, options->eval.sampling);
  add_engine_options(verb, options->common);
  add_json_option(verb, options->common);
  add_quiet_option(verb, options->common);
  verb.callback([options, &action] { action = [options] { return eval(*options); }; });
}

}  // namespace clover
