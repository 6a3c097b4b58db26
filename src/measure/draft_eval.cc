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

// The next turn of all dialogues that have one, counted by category ("all" too). False when none
// has.
bool run_turn(Engine& engine, const PromptWriter& writer, std::vector<Dialogue>& dialogues,
              const DraftEvalOptions& options, std::map<std::string, Count>& counts) {
  std::vector<std::pair<size_t, int64_t>> asked;  // dialogue, request
  std::vector<std::string> answers(dialogues.size());
  for (size_t i = 0; i < dialogues.size(); ++i) {
    if (!dialogues[i].more()) continue;
    Request request;
    request.prompt = dialogues[i].ids(writer);
    request.sampling = options.sampling;
    request.max_tokens = options.max_tokens;
    std::string& answer = answers[i];
    request.on_output = [&answer](const Output& output) {
      answer += output.text;
      if (output.finish == FinishReason::kError) fail(ErrorCode::kExhausted, "{}", output.error);
    };
    asked.emplace_back(i, engine.submit(std::move(request)));
  }
  engine.run();
  for (const auto& [i, id] : asked) {
    const RequestStats& stats = *engine.stats(id);
    const std::string& category = dialogues[i].prompt().category;
    counts["all"].add(stats);
    if (!category.empty()) counts[category].add(stats);
    engine.forget(id);
    dialogues[i].answered(std::move(answers[i]));
  }
  return !asked.empty();
}

// The answers to all prompts with one engine.
std::map<std::string, Count> run(Engine& engine, const PromptWriter& writer,
                                 const std::vector<Prompt>& prompts,
                                 const DraftEvalOptions& options) {
  std::vector<Dialogue> dialogues;
  dialogues.reserve(prompts.size());
  for (const Prompt& prompt : prompts) dialogues.emplace_back(prompt);
  std::map<std::string, Count> counts;
  while (run_turn(engine, writer, dialogues, options, counts)) {
  }
  return counts;
}

Json tree_json(const TreePolicy& tree, const std::map<std::string, Count>& counts) {
  const Count& all = counts.at("all");
  Json depths = Json::array();
  Json recall = Json::array();
  for (size_t d = 0; d < all.drafted_at.size(); ++d) {
    depths.push_back(ratio(all.accepted_at[d], all.drafted_at[d]));
    recall.push_back(ratio(all.accepted_at[d], all.steps));
  }
  Json categories = Json::object();
  for (const auto& [category, count] : counts)
    if (category != "all") categories[category] = ratio(count.accepted, count.steps);
  const bool limited = tree.depth != TreePolicy::kUnlimitedDepth;
  return {{"nodes", tree.nodes},
          {"depth", limited ? Json(tree.depth) : Json(nullptr)},
          {"extra_tokens_per_step", ratio(all.accepted, all.steps)},
          {"drafted_per_step", ratio(all.drafted, all.steps)},
          {"acceptance_rate", ratio(all.accepted, all.drafted)},
          {"per_depth", std::move(depths)},
          {"recall", std::move(recall)},
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

// Only what was asked; the ranks of a node that never had any are left out.
Json ranks_json(const DraftRanks& ranks) {
  Json all = Json::array();
  for (int32_t depth = 0; depth < DraftRanks::kDepths; ++depth)
    for (int32_t parent = 0; parent < DraftRanks::kRanks; ++parent) {
      if (ranks.asked(depth, parent) == 0) continue;
      Json at = Json::array();
      for (int32_t rank = 0; rank < DraftRanks::kRanks; ++rank)
        at.push_back(ranks.at(depth, parent, rank));
      all.push_back({{"depth", depth + 1},
                     {"parent_rank", parent + 1},
                     {"asked", ranks.asked(depth, parent)},
                     {"at_rank", std::move(at)}});
    }
  return all;
}

// The sizes without a limit of depth first, then each with every limit.
std::vector<TreePolicy> all_trees(const DraftEvalOptions& options) {
  std::vector<TreePolicy> trees;
  for (const int64_t nodes : options.nodes)
    trees.push_back(TreePolicy::parse(std::to_string(nodes)));
  for (const int64_t nodes : options.nodes)
    for (const int64_t depth : options.depths)
      trees.push_back(TreePolicy::parse(fmt::format("{}x{}", nodes, depth)));
  return trees;
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
  const PromptWriter writer(tokenizer);
  const std::vector<TreePolicy> policies = all_trees(options);
  Json trees = Json::array();
  Json calibration, ranks;
  bool costly = false;
  for (size_t i = 0; i < policies.size(); ++i) {
    EngineOptions engine_options = options.engine;
    engine_options.max_sequences = options.sequences;
    engine_options.tree = policies[i];
    Engine engine(model, tokenizer, engine_options);
    trees.push_back(tree_json(policies[i], run(engine, writer, prompts, options)));
    costly = engine.drafter()->costly();
    if (i + 1 == options.nodes.size()) {
      calibration = calibration_json(engine.drafter()->calibration());
      ranks = ranks_json(engine.drafter()->ranks());
    }
    if (report) report(static_cast<int64_t>(i) + 1, std::ssize(policies));
  }
  int64_t turns = 0;
  for (const Prompt& prompt : prompts) turns += std::max<int64_t>(1, std::ssize(prompt.turns));
  return {{"trees", std::move(trees)},
          {"calibration", std::move(calibration)},
          {"ranks", std::move(ranks)},
          {"costly", costly},
          {"options",
           {{"max_tokens", options.max_tokens},
            {"questions", prompts.size()},
            {"turns", turns},
            {"temperature", options.sampling.temperature},
            {"seed", options.sampling.seed}}}};
}

}  // namespace clover
