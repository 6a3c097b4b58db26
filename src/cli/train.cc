// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/run_display.h"
#include "cli/session.h"
#include "cli/speculators.h"
#include "cli/torch_build.h"
#include "cli/verbs.h"
#include "measure/draft_eval.h"
#include "speculation/speculators/package.h"
#include "train/trainer.h"

namespace clover {
namespace {

struct TrainVerb {
  CommonOptions common;
  TrainOptions train;
  std::string preset = "ours";
  std::string weights = "q8_0";
  std::string compute = "auto";
  std::string token_loss;
  std::string optimiser;
  std::string eval_with = "ngram+recycle";
  std::vector<int64_t> eval_trees = {8, 25};
  int64_t eval_tokens = 128;
  // Of the recipe; below 0: the preset's.
  int64_t heads = 0;
  double rate = -1;
  double final_rate = -1;
  double feature_weight = -1;
  double decay = -1;
  double weight_decay = -1;
  double clip_norm = -1;
  double clip_value = -1;
  int64_t warm_up = -1;
};

double share_of(const TrainProgress& progress) {
  return static_cast<double>(progress.tokens) / static_cast<double>(progress.max_tokens);
}

std::string rates(const TrainProgress& progress) {
  if (std::string(progress.doing) != "training") return progress.doing;
  std::string text =
      fmt::format("loss {:.3f}, {:.0f} tokens/s", progress.loss, progress.tokens_per_second);
  if (progress.best >= 0) text += fmt::format(", best {:.2f}", progress.best);
  return text;
}

Recipe make_recipe(const TrainVerb& verb, const ModelConfig& model) {
  Recipe recipe = preset_recipe(verb.preset, model.heads);
  const auto set = [](auto& value, auto wanted) {
    if (wanted >= 0) value = wanted;
  };
  recipe.heads = verb.heads;
  set(recipe.rate, verb.rate);
  set(recipe.final_rate, verb.final_rate);
  set(recipe.feature_weight, verb.feature_weight);
  set(recipe.decay, verb.decay);
  set(recipe.weight_decay, verb.weight_decay);
  set(recipe.clip_norm, verb.clip_norm);
  set(recipe.clip_value, verb.clip_value);
  set(recipe.warm_up, verb.warm_up);
  if (!verb.optimiser.empty()) recipe.optimiser = parse_optimiser(verb.optimiser);
  if (!verb.token_loss.empty()) recipe.token_loss = parse_token_loss(verb.token_loss);
  return recipe;
}

// Judges packages by real speculative decoding, with what they will share a tree with and alone.
class Judge {
 public:
  Judge(const TrainVerb& verb, const Session& session, const Checkpoint& checkpoint)
      : verb_(verb), session_(session), checkpoint_(checkpoint) {
    check_speculators(verb.eval_with);
  }

  Json figures(const std::string& package, const std::vector<std::vector<TokenId>>& ids) const {
    std::vector<Prompt> prompts;
    prompts.reserve(ids.size());
    for (const std::vector<TokenId>& prompt : ids) prompts.push_back({"", prompt});
    const std::vector<SpeculatorFactory> head = open_package(package, checkpoint_, session_.model);
    std::vector<SpeculatorFactory> mixed =
        open_speculators(verb_.eval_with, speculator_target(verb_.common, session_));
    Json figures = {{"score", 0.0}};
    double score = 0;
    if (!mixed.empty()) {
      mixed.insert(mixed.begin(), head.begin(), head.end());
      score = add(figures, " with " + verb_.eval_with, prompts, mixed);
    }
    const double alone = add(figures, " alone", prompts, head);
    figures["score"] = mixed.empty() ? alone : score;
    return figures;
  }

 private:
  // The mean over the trees.
  double add(Json& figures, const std::string& how, const std::vector<Prompt>& prompts,
             const std::vector<SpeculatorFactory>& speculators) const {
    DraftEvalOptions options;
    options.nodes = verb_.eval_trees;
    options.max_tokens = verb_.eval_tokens;
    options.engine.speculators = speculators;
    const Json result = eval_drafts(session_.model, *session_.tokenizer, prompts, options, nullptr);
    double sum = 0;
    for (const Json& tree : result["trees"]) {
      const double extra = tree["extra_tokens_per_step"].get<double>();
      figures[fmt::format("tree {}{}", tree["nodes"].get<int64_t>(), how)] = extra;
      sum += extra;
    }
    return sum / static_cast<double>(verb_.eval_trees.size());
  }

  const TrainVerb& verb_;
  const Session& session_;
  const Checkpoint& checkpoint_;
};

int report(const TrainVerb& verb, const Session& session, const TrainResult& result) {
  if (!verb.common.json.empty()) {
    write_json(verb.common.json, {{"out", verb.train.out},
                                  {"finished", result.finished},
                                  {"steps", result.steps},
                                  {"tokens", result.tokens},
                                  {"seconds", result.seconds},
                                  {"best", {{"step", result.best_step}, {"score", result.best}}},
                                  {"recipe", recipe_json(verb.train.recipe)},
                                  {"machine", machine_json(session)},
                                  {"model", {{"name", session.model->config().name}}}});
  }
  if (verb.common.quiet) return 0;
  note(fmt::format("{} steps, {} tokens in {:.0f} s; {}", result.steps, result.tokens,
                   result.seconds,
                   result.best_step < 0
                       ? "nothing was judged: no prompt is held out"
                       : fmt::format("best {:.3f} extra tokens per step (step {}) in {}/{}",
                                     result.best, result.best_step, verb.train.out, kBestPackage)));
  if (!result.finished) note("stopped before the end; the same command with --resume goes on");
  return 0;
}

int train_verb(TrainVerb verb) {
  if (!torch_is_linked()) restart_with_torch();
  const auto checkpoint = open_checkpoint(model_path(verb.common));
  const Session session = open_session(verb.common);
  verb.train.recipe = make_recipe(verb, session.model->config());
  verb.train.weights = package_weights(verb.weights);
  if (verb.compute != "auto")
    verb.train.compute = verb.compute == "bf16" ? DType::kBF16 : DType::kF32;
  verb.train.threads = verb.common.threads;
  const Judge judge(verb, session, *checkpoint);
  RunDisplay display("training", verb.common.quiet);
  const InterruptWatch interrupt;
  bool told = false;
  TrainHooks hooks;
  hooks.report = [&](const TrainProgress& progress) {
    if (interrupt.interrupted() && !told) {
      told = true;
      display.say("saving; Ctrl-C again stops at once");
    }
    display.show(share_of(progress), rates(progress), [&] {
      return fmt::format("step {}, {} of {} tokens, ", progress.step, progress.tokens,
                         progress.max_tokens);
    });
    return !interrupt.interrupted();
  };
  hooks.evaluate = [&](const std::string& package,
                       const std::vector<std::vector<TokenId>>& prompts) {
    return judge.figures(package, prompts);
  };
  hooks.note = [&](const std::string& text) { display.say(text); };
  const TrainResult result = train(verb.train, {*checkpoint, session.model}, hooks);
  display.clear();
  report(verb, session, result);
  return interrupt.interrupted() && !result.finished ? kInterrupted : 0;
}

void add_recipe_options(CLI::App& verb, TrainVerb& o) {
  verb.add_option("--preset", o.preset,
                  "recipe: ours (default), clover2, clover1, medusa, eagle, combo-…")
      ->check(CLI::IsMember(recipe_names()));
  verb.add_option("--init", o.train.init, "begin with the weights and switches of this package")
      ->type_name("DIR");
  add_number<int64_t>(verb, "--heads", o.heads, "trained depth (default: the preset's)", 1, 64);
  add_number<int64_t>(verb, "--draft-vocab", o.train.draft_vocab,
                      "tokens it can draft: the most frequent of the answers (default 8192)", 1);
  verb.add_option("--weights", o.weights,
                  "how the package's matrices are held while running (default q8_0)")
      ->check(CLI::IsMember(package_weight_names()));
  verb.add_option("--loss", o.token_loss,
                  "what heads learn from: the text, the target's distribution, or what of it they "
                  "overlap")
      ->check(CLI::IsMember(token_loss_names()));
  add_number<double>(verb, "--feature-weight", o.feature_weight, "weight of the loss on states", 0);
  add_number<double>(verb, "--decay", o.decay, "weight of a head over that of the head before", 0,
                     1);
  verb.add_option("--optimiser", o.optimiser, "adamw, or muon for matrices")
      ->check(CLI::IsMember(optimiser_names()));
  add_number<double>(verb, "--rate", o.rate, "learning rate", 0, 1);
  add_number<double>(verb, "--final-rate", o.final_rate, "share of it that is left at the end", 0,
                     1);
  add_number<int64_t>(verb, "--warm-up", o.warm_up, "steps until the full rate", 0);
  add_number<double>(verb, "--weight-decay", o.weight_decay, "decay of matrices", 0, 1);
  add_number<double>(verb, "--clip-norm", o.clip_norm, "longest gradient; 0: any", 0);
  add_number<double>(verb, "--clip-value", o.clip_value, "largest gradient of a weight; 0: any", 0);
}

void add_run_options(CLI::App& verb, TrainVerb& o) {
  TrainOptions& t = o.train;
  add_number<int64_t>(verb, "--max-tokens", t.max_tokens,
                      "answer tokens to present (default: three times the data's)", 1);
  add_number<int64_t>(verb, "--max-steps", t.max_steps, "steps, at most", 1);
  add_number<double>(verb, "--minutes", t.minutes, "time of this run, at most", 0);
  add_number<int64_t>(verb, "--batch-tokens", t.batches.batch_tokens,
                      "tokens of a batch (default 4096)", 1);
  add_number<int64_t>(verb, "--accumulate", t.accumulate, "batches of a step (default 1)", 1, 4096);
  add_number<int64_t>(verb, "--max-length", t.batches.max_length,
                      "tokens of a text, the rest is cut (default 1024)", 3);
  add_number<double>(verb, "--held-out", t.batches.held_out_share,
                     "share of the prompts kept from training (default 0.01)", 0, 0.9);
  verb.add_flag("--cache-features", t.cache_features,
                "keep the model's hidden states on the disk for later epochs");
  verb.add_option("--compute", o.compute,
                  "products in f32 or bf16, or auto (default): in whichever is faster here")
      ->check(CLI::IsMember({"auto", "f32", "bf16"}));
  add_number<uint64_t>(verb, "--seed", t.seed, "seed of the weights and the order (default 0)");
  add_number<int64_t>(verb, "--log-every", t.log_every,
                      "steps between lines of the log (default 10)", 1);
  add_number<int64_t>(verb, "--save-every", t.save_every,
                      "steps that a killed run loses, at most (default 100)", 1);
  add_number<int64_t>(verb, "--eval-every", t.eval_every, "steps between judgements (default 500)",
                      1);
  add_number<int64_t>(verb, "--eval-prompts", t.eval_prompts,
                      "held-out prompts of one (default 24)", 1);
  add_number<int64_t>(verb, "--eval-tokens", o.eval_tokens,
                      "tokens of an answer there (default 128)", 2);
  verb.add_option("--eval-trees", o.eval_trees, "sizes of tree there (default 8,25)")
      ->delimiter(',')
      ->type_name("N,…");
  verb.add_option("--eval-with", o.eval_with,
                  "what shares the tree with it there (default ngram+recycle), or none")
      ->type_name("NAME");
}

}  // namespace

void add_train(CLI::App& program, Action& action) {
  CLI::App& verb = *program.add_subcommand("train", "Trains a speculator on distilled data.");
  const auto options = std::make_shared<TrainVerb>();
  TrainVerb& o = *options;
  add_model_option(verb, o.common);
  add_list(verb, "--data", o.train.data, "folder of distilled data (repeatable)")
      ->required()
      ->type_name("DIR");
  verb.add_option("--out", o.train.out, "folder of the run: state, log, curves and packages")
      ->required()
      ->type_name("DIR");
  verb.add_flag("--resume", o.train.resume, "go on with the run in that folder, if there is one");
  add_recipe_options(verb, o);
  add_run_options(verb, o);
  add_engine_options(verb, o.common);
  add_json_option(verb, o.common);
  add_quiet_option(verb, o.common);
  verb.callback([options, &action] { action = [options] { return train_verb(*options); }; });
}

}  // namespace clover
