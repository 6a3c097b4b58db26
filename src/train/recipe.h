// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "speculation/speculators/clover_config.h"

namespace clover {

// How the learning rate goes on behind the warm-up: along half a cosine to `final_rate`, level, or
// level and, over the last fifth, straight down to it.
enum class RateSchedule { kCosine, kConstant, kTrapezoid };

// What turns gradients into steps: AdamW (arXiv 1711.05101), or Muon for matrices (momentum brought
// near an orthogonal matrix, Jordan et al. 2024, scaled to the size of AdamW's steps as in arXiv
// 2502.16982) and AdamW for vectors.
enum class OptimiserKind { kAdamW, kMuon };

// What a head's distribution p over the draft vocabulary is judged by: the token of the text, the
// target's distribution q (cross entropy), or what speculative sampling would reject,
// 1 - sum(min(p, q)) (total variation), or -log(sum(min(p, q))) (LK).
enum class TokenLoss { kText, kTarget, kOverlap, kLogOverlap };

// What is trained and how. The loss of head j (from 0) at a row is
//   decay^j (token_weight token loss + feature_weight SmoothL1(head's normed state, target's normed
//   state))
// and a step's loss is the sum over heads of its mean over the rows that count.
struct Recipe {
  std::string name;                      // of the preset that it began as
  std::string type;                      // of the package, as InitOptions::type
  std::optional<CloverConfig> switches;  // instead of the type's own
  int64_t heads = 0;                     // 0: the type's own
  // Where weights begin (InitOptions).
  float noise = 0.01f;
  bool fresh_layers = false;
  // The loss.
  double decay = 0.7;
  double token_weight = 1.0;
  TokenLoss token_loss = TokenLoss::kTarget;
  double feature_weight = 0.0;  // SmoothL1 is a mean over the hidden size
  bool only_right = false;      // rows count while all earlier heads' best tokens are right
  // The optimiser.
  OptimiserKind optimiser = OptimiserKind::kAdamW;
  double momentum = 0.95;  // Muon's
  double rate = 1e-3;
  double final_rate = 0.0;  // as a share of `rate`
  RateSchedule schedule = RateSchedule::kCosine;
  int64_t warm_up = 100;  // steps
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  double clip_value = 0.0;  // every gradient into [-clip_value, clip_value]; 0: not
  double clip_norm = 0.0;   // the gradient of all weights to this length; 0: not
};

// "ours", "clover2", "clover1", "medusa", "eagle", and "combo-0" … "combo-rab": Clover-1's recipe
// with some of its components (preset_config()). Sources: clover2 arXiv 2408.00264 section 3 (with
// the warm-up that suits its number of steps scaled down), clover1 arXiv 2405.00263 section 4,
// medusa arXiv 2401.10774 (first stage), eagle arXiv 2401.15077 section 4.
// Error(kInvalidArgument) naming the presets for another name.
Recipe preset_recipe(std::string_view name, int64_t attention_heads);
std::vector<std::string> recipe_names();

// "text", "target", "overlap", "log-overlap". Error(kInvalidArgument) for another name.
TokenLoss parse_token_loss(std::string_view name);
std::vector<std::string> token_loss_names();

// "adamw", "muon". Error(kInvalidArgument) for another name.
OptimiserKind parse_optimiser(std::string_view name);
std::vector<std::string> optimiser_names();

// Error(kInvalidArgument) naming the number that is out of range.
void validate(const Recipe& recipe);

// As the log and a run's settings have it.
Json recipe_json(const Recipe& recipe);

// Learning rate of a step (from 0) when `done` (0 … 1) of the training lies behind.
double learning_rate(const Recipe& recipe, int64_t step, double done);

}  // namespace clover
