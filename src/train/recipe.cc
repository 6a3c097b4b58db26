// SPDX-License-Identifier: Apache-2.0
#include "train/recipe.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>

#include "base/error.h"

namespace clover {
namespace {

// Of a trapezoid, the share of the training over which the rate falls.
constexpr double kFall = 0.2;
// In the order of OptimiserKind.
constexpr const char* kOptimisers[] = {"adamw", "muon"};
// In the order of TokenLoss.
constexpr const char* kTokenLosses[] = {"text", "target", "overlap", "log-overlap"};

// Clover-2's structure with both inputs brought to one scale and joined by one matrix: a target's
// hidden states may be some hundred times larger than its embeddings, which a cosine decoder on
// states as they are hardly hears.
Recipe ours() {
  Recipe recipe;
  recipe.type = "clover";
  CloverConfig config;
  config.block = BlockKind::kFull;
  config.block_layers = 2;
  config.decoder_first = true;
  config.decoder = DecoderKind::kConcat;
  config.regressive = true;
  config.projector = ProjectorKind::kFc;
  config.shared_heads = true;
  config.input_norm = true;
  config.heads = 4;
  recipe.switches = config;
  recipe.noise = 0.0f;
  recipe.fresh_layers = true;
  recipe.feature_weight = 1.0;
  recipe.optimiser = OptimiserKind::kMuon;
  recipe.rate = 2e-3;
  recipe.final_rate = 0.02;
  recipe.schedule = RateSchedule::kTrapezoid;
  recipe.clip_norm = 1.0;
  return recipe;
}

Recipe clover2() {
  Recipe recipe;
  recipe.feature_weight = 10.0;
  recipe.only_right = true;
  recipe.clip_value = 0.5;
  recipe.schedule = RateSchedule::kConstant;
  return recipe;
}

Recipe clover1() {
  Recipe recipe;
  recipe.decay = 1.0;
  recipe.token_loss = TokenLoss::kText;
  recipe.beta2 = 0.999;
  return recipe;
}

Recipe medusa() {
  Recipe recipe;
  recipe.decay = 0.8;
  recipe.token_loss = TokenLoss::kText;
  recipe.beta2 = 0.999;
  recipe.weight_decay = 0.0;
  return recipe;
}

// Regression to the target's states with a tenth of the weight on the tokens; one head, since its
// layer only ever sees true features.
Recipe eagle() {
  Recipe recipe;
  recipe.token_weight = 0.1;
  recipe.feature_weight = 1.0;
  recipe.rate = 3e-4;
  recipe.weight_decay = 0.0;
  recipe.clip_value = 0.5;
  recipe.schedule = RateSchedule::kConstant;
  return recipe;
}

const char* schedule_name(RateSchedule schedule) {
  if (schedule == RateSchedule::kCosine) return "cosine";
  return schedule == RateSchedule::kConstant ? "constant" : "trapezoid";
}

}  // namespace

std::vector<std::string> recipe_names() {
  std::vector<std::string> names = {"ours"};
  names.insert(names.end(), preset_names().begin(), preset_names().end());
  names.emplace_back("eagle");
  return names;
}

Recipe preset_recipe(std::string_view name, int64_t attention_heads) {
  Recipe recipe;
  if (name == "ours") {
    recipe = ours();
  } else if (name == "eagle") {
    recipe = eagle();
  } else if (name == "clover2") {
    recipe = clover2();
  } else if (name == "medusa") {
    recipe = medusa();
  } else {
    preset_config(name, attention_heads);  // refuses unknown names
    recipe = clover1();
  }
  recipe.name = name;
  if (recipe.type.empty()) recipe.type = name;
  return recipe;
}

std::vector<std::string> token_loss_names() {
  return {std::begin(kTokenLosses), std::end(kTokenLosses)};
}

TokenLoss parse_token_loss(std::string_view name) {
  for (size_t i = 0; i < std::size(kTokenLosses); ++i)
    if (name == kTokenLosses[i]) return static_cast<TokenLoss>(i);
  fail(ErrorCode::kInvalidArgument,
       "the token loss '{}' is none of text, target, overlap, log-overlap", name);
}

std::vector<std::string> optimiser_names() {
  return {std::begin(kOptimisers), std::end(kOptimisers)};
}

OptimiserKind parse_optimiser(std::string_view name) {
  for (size_t i = 0; i < std::size(kOptimisers); ++i)
    if (name == kOptimisers[i]) return static_cast<OptimiserKind>(i);
  fail(ErrorCode::kInvalidArgument, "the optimiser '{}' is none of adamw, muon", name);
}

void validate(const Recipe& r) {
  const auto check = [](const char* name, double value, double low, double high) {
    if (!(value >= low && value <= high))
      fail(ErrorCode::kInvalidArgument, "recipe: {} must be from {} to {}, not {}", name, low, high,
           value);
  };
  check("rate", r.rate, 0, 1);
  check("final_rate", r.final_rate, 0, 1);
  check("decay", r.decay, 0, 1);
  check("token_weight", r.token_weight, 0, 1e6);
  check("feature_weight", r.feature_weight, 0, 1e6);
  check("warm_up", static_cast<double>(r.warm_up), 0, 1e9);
  check("momentum", r.momentum, 0, 0.999999);
  check("beta1", r.beta1, 0, 0.999999);
  check("beta2", r.beta2, 0, 0.999999);
  check("epsilon", r.epsilon, 1e-16, 1);
  check("weight_decay", r.weight_decay, 0, 1);
  check("clip_value", r.clip_value, 0, 1e9);
  check("clip_norm", r.clip_norm, 0, 1e9);
  check("noise", static_cast<double>(r.noise), 0, 1);
  if (r.token_weight == 0 && r.feature_weight == 0)
    fail(ErrorCode::kInvalidArgument, "recipe: both weights of the loss are 0");
}

Json recipe_json(const Recipe& r) {
  return {{"preset", r.name},
          {"heads", r.heads},
          {"noise", r.noise},
          {"fresh_layers", r.fresh_layers},
          {"decay", r.decay},
          {"token_weight", r.token_weight},
          {"token_loss", kTokenLosses[static_cast<size_t>(r.token_loss)]},
          {"feature_weight", r.feature_weight},
          {"only_right", r.only_right},
          {"optimiser", kOptimisers[static_cast<size_t>(r.optimiser)]},
          {"momentum", r.momentum},
          {"rate", r.rate},
          {"final_rate", r.final_rate},
          {"schedule", schedule_name(r.schedule)},
          {"warm_up", r.warm_up},
          {"beta1", r.beta1},
          {"beta2", r.beta2},
          {"epsilon", r.epsilon},
          {"weight_decay", r.weight_decay},
          {"clip_value", r.clip_value},
          {"clip_norm", r.clip_norm}};
}

double learning_rate(const Recipe& r, int64_t step, double done) {
  const double rise =
      r.warm_up > 0 ? std::min(1.0, static_cast<double>(step + 1) / static_cast<double>(r.warm_up))
                    : 1.0;
  done = std::clamp(done, 0.0, 1.0);
  double height = 1.0;
  if (r.schedule == RateSchedule::kCosine) {
    height = 0.5 * (1 + std::cos(std::numbers::pi * done));
  } else if (r.schedule == RateSchedule::kTrapezoid) {
    height = std::min(1.0, (1 - done) / kFall);
  }
  return r.rate * rise * (r.final_rate + (1 - r.final_rate) * height);
}

}  // namespace clover
