// SPDX-License-Identifier: Apache-2.0
#include "measure/draft_eval.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "measure/prompts.h"

namespace clover {
namespace {

struct Count {
  int64_t steps = 0;
  int64_t drafted = 0;
  int64_t accepted = 0;
  std::vector<int64_t> drafted_at;
  std::vector<int64_t> accepted_at;

  void add(const RequestStats& stats) {
    steps += stats.target_steps;
    drafted += stats.drafted;
    accepted += stats.accepted;
    const size_t depths = std::max(drafted_at.size(), stats.drafted_at_depth.size());
    drafted_at.resize(depths);
    accepted_at.resize(depths);
    for (size_t d = 0; d < stats.drafted_at_depth.size(); ++d) {
      drafted_at[d] += stats.drafted_at_depth[d];
      accepted_at[d] += stats.accepted_at_depth[d];
    }
  }
};

double ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

// The answers to all prompts with one engine, counted by category ("all" too).
std::map<std::string, Count> run(Engine& engine, const std::vector<Prompt>& prompts,
                                 const DraftEvalOptions& options) {
  std::vector<int64_t> ids;
  for (const Prompt& prompt : prompts) {
    Request request;
    request.prompt = prompt.ids;
    request.sampling = options.sampling;
    request.max_tokens = options.max_tokens;
    request.on_output = [](const Output& output) {
      if (output.finish == FinishReason::kError) fail(ErrorCode::kExhausted, "{}", output.error);
    };
    ids.push_back(engine.submit(std::move(request)));
  }
  engine.run();
  std::map<std::string, Count> counts;
  for (size_t i = 0; i < ids.size(); ++i) {
    const RequestStats& stats = *engine.stats(ids[i]);
    counts["all"].add(stats);
    if (!prompts[i].category.empty()) counts[prompts[i].category].add(stats);
    engine.forget(ids[i]);
  }
  return counts;
}

Json tree_json(int64_t nodes, const std::map<std::string, Count>& counts) {
  const Count& all = counts.at("all");
  Json depths = Json::array();
  for (size_t d = 0; d < all.drafted_at.size(); ++d)
    depths.push_back(ratio(all.accepted_at[d], all.drafted_at[d]));
  Json categories = Json::object();
  for (const auto& [category, count] : counts)
    if (category != "all") categories[category] = ratio(count.accepted, count.steps);
  return {{"nodes", nodes},
          {"extra_tokens_per_step", ratio(all.accepted, all.steps)},
          {"drafted_per_step", ratio(all.drafted, all.steps)},
          {"acceptance_rate", ratio(all.accepted, all.drafted)},
          {"per_depth", std::move(depths)},
          {"by_category", std::move(categories)}};
}

Json calibration_json(const Calibration& calibration) {
  Json tenths = Json::array();
  double low = 0.0;
  for (const Calibration::Reliability& tenth : calibration.reliability()) {
    const auto count = static_cast<double>(std::max<int64_t>(tenth.count, 1));
    tenths.push_back({{"low", low},
                      {"high", low + 0.1},
                      {"count", tenth.count},
                      {"predicted", tenth.predicted / count},
                      {"observed", tenth.observed / count}});
    low += 0.1;
  }
  return tenths;
}

}  // namespace

Json eval_drafts(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer,
                 const std::vector<Question>& questions, const DraftEvalOptions& options,
                 const std::function<void(int64_t, int64_t)>& report) {
  return eval_drafts(model, tokenizer, render_prompts(questions, tokenizer), options, report);
}

Json eval_drafts(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer,
                 const std::vector<Prompt>& prompts, const DraftEvalOptions& options,
                 const std::function<void(int64_t, int64_t)>& report) {
  if (options.engine.speculators.empty())
    fail(ErrorCode::kInvalidArgument, "there is no speculator to judge");
  if (options.nodes.empty() || prompts.empty())
    fail(ErrorCode::kInvalidArgument, "needs at least one size of tree and one question");
  Json trees = Json::array();
  Json calibration;
  for (size_t i = 0; i < options.nodes.size(); ++i) {
    EngineOptions engine_options = options.engine;
    engine_options.max_sequences = options.sequences;
    engine_options.tree = TreePolicy::parse(std::to_string(options.nodes[i]));
    Engine engine(model, tokenizer, engine_options);
    trees.push_back(tree_json(options.nodes[i], run(engine, prompts, options)));
    calibration = calibration_json(engine.drafter()->calibration());
    if (report) report(static_cast<int64_t>(i) + 1, std::ssize(options.nodes));
  }
  return {{"trees", std::move(trees)},
          {"calibration", std::move(calibration)},
          {"options",
           {{"max_tokens", options.max_tokens},
            {"questions", prompts.size()},
            {"temperature", options.sampling.temperature},
            {"seed", options.sampling.seed}}}};
}

}  // namespace clover
