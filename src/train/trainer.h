// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "speculation/speculators/package.h"
#include "train/recipe.h"
#include "train/training_data.h"

namespace clover {

struct TrainOptions {
  std::string out;                // folder of the run
  bool resume = false;            // go on with what is in it
  std::vector<std::string> data;  // folders of distilled data
  Recipe recipe;
  std::string init;            // package to begin with instead of the recipe's own beginning
  int64_t draft_vocab = 8192;  // tokens it can draft; at most the target's vocabulary
  DType weights = DType::kQ8_0;
  uint64_t seed = 0;
  TrainingDataOptions batches;
  int64_t accumulate = 1;  // batches of a step
  int64_t max_tokens = 0;  // answer tokens to present in all, which the schedule counts in;
                           // 0: three times those of the data
  int64_t max_steps = 0;   // 0: no limit
  double minutes = 0;      // of this run; 0: no limit
  int64_t log_every = 10;  // steps
  int64_t save_every = 100;
  int64_t eval_every = 500;
  int64_t eval_prompts = 24;    // held-out prompts that packages are judged by
  bool cache_features = false;  // keep the target's features in a file of the run
  // What products are computed in, kF32 or kBF16; without it, what is faster on this machine.
  std::optional<DType> compute;
  int threads = 0;  // of training; 0: the cores that the process is granted
};

// What is told while it goes on.
struct TrainProgress {
  int64_t step = 0;
  int64_t tokens = 0;      // answer tokens presented
  int64_t max_tokens = 0;  // to present
  int64_t epoch = 0;
  double loss = 0;               // of the last step
  double tokens_per_second = 0;  // of this run
  double feature_share = 0;      // of the time, spent on the target's features
  double best = -1;              // of the best package, -1: not evaluated yet
  const char* doing = "training";
};

struct TrainHooks {
  // After every step and before longer pauses; false: save and stop.
  std::function<bool(const TrainProgress&)> report = {};
  // How good a package is at drafting the answers to prompts, by figures with names; the first
  // decides which package is kept as best. Without it, or without held-out prompts, none is.
  std::function<Json(const std::string& package, const std::vector<std::vector<TokenId>>& prompts)>
      evaluate = {};
  std::function<void(const std::string&)> note = {};  // a line for people
};

// What a run is for. `model` has been loaded from `checkpoint`.
struct TrainTarget {
  const Checkpoint& checkpoint;
  std::shared_ptr<const Model> model;
};

struct TrainResult {
  bool finished = false;  // all was presented; false: stopped or out of time
  int64_t steps = 0;
  int64_t tokens = 0;
  double seconds = 0;  // of all runs
  double best = -1;
  int64_t best_step = -1;
};

// Names inside a run's folder.
inline constexpr const char* kStateFile = "state.safetensors";
inline constexpr const char* kTrainLogFile = "log.jsonl";
inline constexpr const char* kLastPackage = "last";
inline constexpr const char* kBestPackage = "best";

// Trains a speculator for a target. Everything lies in the folder of the run: the state from which
// it goes on exactly, log.jsonl, loss.svg and acceptance.svg, and the packages `last` and `best`.
// The program may be killed at any time; what was done since the last state (save_every steps) is
// lost. Errors: kInvalidArgument (options by name, data of another target, a folder that holds a
// run already or, with resume, one of other settings), kCorrupt (shards, state), kExhausted (full
// disk; the state before stays), and kInvalidArgument when the loss is no number, with the step and
// the texts.
TrainResult train(const TrainOptions& options, const TrainTarget& target, const TrainHooks& hooks);

}  // namespace clover
