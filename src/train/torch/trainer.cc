// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "backend/torch_backend.h"
#include "base/clock.h"
#include "base/error.h"
#include "model/fingerprint.h"
#include "speculation/speculators/init.h"
#include "train/batch_source.h"
#include "train/draft_vocab.h"
#include "train/run_state.h"
#include "train/torch/objective.h"
#include "train/torch/optimiser.h"
#include "train/train_log.h"

namespace clover {
namespace {

namespace fs = std::filesystem;

// Held-out texts that teacher-forced figures are taken on.
constexpr int64_t kHeldOutBatches = 4;
constexpr double kPresentations = 3;  // of the data, where nothing says how long to train

TrainingBatch to_torch(TextRows rows, int64_t hidden) {
  TrainingBatch batch;
  batch.features = at::from_blob(rows.features.data(), {std::ssize(rows.tokens), hidden},
                                 at::TensorOptions().dtype(at::kFloat))
                       .clone();
  batch.lengths = std::move(rows.lengths);
  batch.tokens = std::move(rows.tokens);
  batch.loss = std::move(rows.loss);
  return batch;
}

std::vector<at::Tensor> values_of(const std::vector<NamedParameter>& parameters) {
  std::vector<at::Tensor> values;
  values.reserve(parameters.size());
  for (const NamedParameter& parameter : parameters) values.push_back(parameter.value);
  return values;
}

Json scores_json(const std::vector<HeadSums>& sums) {
  Json heads = Json::array();
  for (const HeadSums& s : sums) {
    const auto rows = static_cast<double>(std::max<int64_t>(s.rows, 1));
    const auto counted = static_cast<double>(std::max<int64_t>(s.counted, 1));
    heads.push_back({{"loss", s.loss / counted},
                     {"feature_loss", s.feature / counted},
                     {"teacher_forced_top1", static_cast<double>(s.top1) / rows},
                     {"teacher_forced_top5", static_cast<double>(s.top5) / rows}});
  }
  return heads;
}

// The whole loss of a step, from the sums of its batches.
double loss_of(const std::vector<HeadSums>& sums, const Recipe& recipe) {
  double loss = 0;
  double weight = 1;
  for (const HeadSums& s : sums) {
    const auto counted = static_cast<double>(std::max<int64_t>(s.counted, 1));
    loss += weight * (recipe.token_weight * s.loss + recipe.feature_weight * s.feature) / counted;
    weight *= recipe.decay;
  }
  return loss;
}

class Trainer {
 public:
  Trainer(const TrainOptions& options, const TrainTarget& target, const TrainHooks& hooks);
  TrainResult run();

 private:
  std::string file(const char* name) const { return (fs::path(options_.out) / name).string(); }
  Package first_package() const;
  std::vector<StateTensor> tensors();
  void resume();
  void save();
  bool step();
  std::vector<HeadSums> learn(const std::vector<TextBatch>& batches);
  [[noreturn]] void bad_loss(const std::vector<TextBatch>& batches) const;
  std::vector<TextBatch> next_batches();
  void begin_epoch();
  void evaluate();
  void export_package(const char* name);
  Json held_out_scores();
  void log_step(const std::vector<HeadSums>& sums, double rate, double length);
  bool report(const char* doing);
  double tokens_per_second(double seconds) const {
    return static_cast<double>(position_.tokens - tokens_before_) / seconds;
  }
  double done() const;
  bool over() const;

  const TrainOptions& options_;
  const TrainHooks& hooks_;
  RunFolder folder_;
  TrainTarget target_;
  std::string fingerprint_;
  Json settings_;
  RunPosition position_;
  std::optional<BatchSource> source_;
  std::vector<TextBatch> epoch_;
  int64_t max_tokens_ = 0;
  std::optional<Trainable> speculator_;
  std::optional<Objective> objective_;
  std::optional<AdamW> optimiser_;
  std::optional<TrainLog> log_;
  Clock::time_point begin_ = Clock::now();
  double seconds_before_ = 0;
  int64_t tokens_before_ = 0;
  int64_t evaluated_ = -1;  // step of the last evaluation
  double loss_ = 0;
  bool wanted_ = true;  // to go on
};

Trainer::Trainer(const TrainOptions& options, const TrainTarget& target, const TrainHooks& hooks)
    : options_(options),
      hooks_(hooks),
      folder_(options.out),
      target_(target),
      fingerprint_(model_fingerprint(target.checkpoint)) {
  validate(options.recipe);
  const bool there = fs::exists(file(kStateFile));
  if (there && !options.resume)
    fail(ErrorCode::kInvalidArgument, "{} holds a run already; --resume goes on with it",
         options.out);
  if (there) {
    const SavedRun saved = read_state(file(kStateFile));
    position_ = saved.position;
    settings_ = saved.settings;
  }
  source_.emplace(BatchSourceOptions{options.data, options.batches, position_.shards,
                                     options.cache_features ? file("features.bin") : ""},
                  target.model, fingerprint_);
  if (hooks.note) hooks.note(source_->describe());
  const TrainingData& data = source_->data();
  max_tokens_ =
      options.max_tokens > 0
          ? options.max_tokens
          : static_cast<int64_t>(kPresentations * static_cast<double>(data.response_tokens()));
  const Json wanted = {{"recipe", recipe_json(options.recipe)},
                       {"target", fingerprint_},
                       {"data", options.data},
                       {"init", options.init},
                       {"draft_vocab", options.draft_vocab},
                       {"seed", options.seed},
                       {"max_length", options.batches.max_length},
                       {"batch_tokens", options.batches.batch_tokens},
                       {"held_out_share", options.batches.held_out_share},
                       {"accumulate", options.accumulate}};
  if (there) check_settings(settings_, wanted, options.out);
  settings_ = wanted;
  const auto backend = make_torch_backend({.threads = options.threads, .type = options.compute});
  speculator_.emplace(there ? read_package(file(kLastPackage), target.checkpoint) : first_package(),
                      target.checkpoint, Model::load_frame(target.checkpoint, backend));
  objective_.emplace(*speculator_, options.recipe);
  optimiser_.emplace(values_of(speculator_->parameters()), options.recipe);
  log_.emplace(file(kTrainLogFile), there ? position_.step : -1);
  if (there) resume();
}

Package Trainer::first_package() const {
  if (!options_.init.empty()) {
    Package package = read_package(options_.init, target_.checkpoint);
    if (!package.config.has_head())
      fail(ErrorCode::kInvalidArgument, "--init {}: has no head to train", options_.init);
    return package;
  }
  InitOptions init;
  init.type = options_.recipe.type;
  init.switches = options_.recipe.switches;
  init.heads = options_.recipe.heads;
  init.seed = options_.seed;
  init.weights = options_.weights;
  init.noise = options_.recipe.noise;
  init.fresh_layers = options_.recipe.fresh_layers;
  const int64_t size = std::min(options_.draft_vocab, target_.model->config().vocab);
  const DraftVocab vocab = choose_draft_vocab(source_->data(), size);
  init.draft_tokens = vocab.tokens;
  if (hooks_.note)
    hooks_.note(fmt::format("drafts {} tokens, which are {:.2f} % of the answers", size,
                            100 * vocab.coverage));
  return init_package(target_.checkpoint, init);
}

std::vector<StateTensor> Trainer::tensors() {
  std::vector<StateTensor> tensors;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    tensors.push_back({name,
                       tensor.sizes().vec(),
                       {tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel())}});
  };
  const std::vector<NamedParameter>& parameters = speculator_->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    add(parameters[i].name, parameters[i].value);
    add("first." + parameters[i].name, optimiser_->first()[i]);
    add("second." + parameters[i].name, optimiser_->second()[i]);
  }
  return tensors;
}

void Trainer::resume() {
  const at::NoGradGuard no_grad;
  load_state(file(kStateFile), tensors());
  optimiser_->set_steps(position_.step);
  seconds_before_ = position_.seconds;
  tokens_before_ = position_.tokens;
  epoch_ = source_->data().epoch(position_.epoch);
  if (hooks_.note)
    hooks_.note(fmt::format("goes on at step {}, {} tokens", position_.step, position_.tokens));
}

void Trainer::save() {
  position_.seconds = seconds_before_ + ms_since(begin_) / 1000;
  save_state(file(kStateFile), position_, settings_, tensors());
}

double Trainer::done() const {
  double share = static_cast<double>(position_.tokens) / static_cast<double>(max_tokens_);
  if (options_.max_steps > 0)
    share = std::max(share,
                     static_cast<double>(position_.step) / static_cast<double>(options_.max_steps));
  return share;
}

bool Trainer::over() const {
  return position_.tokens >= max_tokens_ ||
         (options_.max_steps > 0 && position_.step >= options_.max_steps);
}

bool Trainer::report(const char* doing) {
  if (!hooks_.report) return true;
  const double seconds = ms_since(begin_) / 1000;
  wanted_ = hooks_.report({.step = position_.step,
                           .tokens = position_.tokens,
                           .max_tokens = max_tokens_,
                           .epoch = position_.epoch,
                           .loss = loss_,
                           .tokens_per_second = tokens_per_second(seconds),
                           .feature_share = source_->feature_seconds() / seconds,
                           .best = position_.best,
                           .doing = doing}) &&
            wanted_;
  return wanted_;
}

// New shards come in between epochs, so that a saved position always means the same texts.
void Trainer::begin_epoch() {
  if (position_.step > 0) source_->reopen();
  position_.shards = source_->shards();
  epoch_ = source_->data().epoch(position_.epoch);
  position_.batch = 0;
}

std::vector<TextBatch> Trainer::next_batches() {
  std::vector<TextBatch> batches;
  while (std::ssize(batches) < options_.accumulate) {
    if (position_.batch >= std::ssize(epoch_)) {
      // A step does not reach over the end of an epoch.
      if (!batches.empty()) break;
      ++position_.epoch;
      begin_epoch();
    }
    batches.push_back(epoch_[static_cast<size_t>(position_.batch++)]);
  }
  return batches;
}

std::vector<HeadSums> Trainer::learn(const std::vector<TextBatch>& batches) {
  const int64_t heads = speculator_->heads();
  std::vector<TrainingBatch> rows;
  rows.reserve(batches.size());
  std::vector<int64_t> step_rows(static_cast<size_t>(heads));
  for (const TextBatch& texts : batches) {
    rows.push_back(to_torch(source_->load(texts), target_.model->config().hidden));
    const std::vector<int64_t> counts = count_rows(rows.back(), heads);
    for (size_t j = 0; j < counts.size(); ++j) step_rows[j] += counts[j];
    for (const uint8_t loss : rows.back().loss) position_.tokens += loss;
  }
  std::vector<HeadSums> sums(static_cast<size_t>(heads));
  for (const TrainingBatch& batch : rows) {
    const std::vector<HeadSums> part = objective_->run(batch, step_rows, true);
    for (size_t j = 0; j < part.size(); ++j) sums[j] += part[j];
  }
  return sums;
}

void Trainer::bad_loss(const std::vector<TextBatch>& batches) const {
  std::string texts;
  for (const TextBatch& batch : batches)
    for (const uint32_t i : batch) texts += fmt::format("{}{}", texts.empty() ? "" : ", ", i);
  fail(ErrorCode::kInvalidArgument,
       "the loss or its gradient is no number in step {} (epoch {}, texts {}); the state of {} is "
       "kept: a lower --rate or clipping may help",
       position_.step + 1, position_.epoch, texts, options_.out);
}

bool Trainer::step() {
  const std::vector<TextBatch> batches = next_batches();
  const double rate = learning_rate(options_.recipe, position_.step, done());
  const std::vector<HeadSums> sums = learn(batches);
  loss_ = loss_of(sums, options_.recipe);
  if (!std::isfinite(loss_)) bad_loss(batches);
  const double length = optimiser_->step(rate);
  if (!std::isfinite(length)) bad_loss(batches);
  ++position_.step;
  if (position_.step % options_.log_every == 0) log_step(sums, rate, length);
  return report("training");
}

void Trainer::log_step(const std::vector<HeadSums>& sums, double rate, double length) {
  const double seconds = ms_since(begin_) / 1000;
  log_->add({{"step", position_.step},
             {"tokens", position_.tokens},
             {"epoch", position_.epoch},
             {"seconds", seconds_before_ + seconds},
             {"rate", rate},
             {"loss", loss_},
             {"gradient", length},
             {"tokens_per_second", tokens_per_second(seconds)},
             {"feature_share", source_->feature_seconds() / seconds},
             {"heads", scores_json(sums)}});
}

Json Trainer::held_out_scores() {
  std::vector<HeadSums> sums(static_cast<size_t>(speculator_->heads()));
  for (const TextBatch& texts : source_->data().held_out_batches(kHeldOutBatches)) {
    const TrainingBatch batch = to_torch(source_->load(texts), target_.model->config().hidden);
    const std::vector<HeadSums> part =
        objective_->run(batch, count_rows(batch, speculator_->heads()), false);
    for (size_t j = 0; j < part.size(); ++j) sums[j] += part[j];
  }
  return scores_json(sums);
}

void Trainer::export_package(const char* name) {
  Package package = speculator_->package();
  package.config.training = {
      {"recipe", options_.recipe.name}, {"steps", position_.step},
      {"tokens", position_.tokens},     {"texts", source_->data().training().size()},
      {"seed", options_.seed},          {"max_length", options_.batches.max_length}};
  write_package(file(name), package);
}

void Trainer::evaluate() {
  evaluated_ = position_.step;
  report("judging");
  export_package(kLastPackage);
  Json line = {
      {"step", position_.step}, {"tokens", position_.tokens}, {"held_out", held_out_scores()}};
  const auto prompts = source_->data().held_out_prompts(options_.eval_prompts);
  if (hooks_.evaluate && !prompts.empty()) {
    const Json figures = hooks_.evaluate(file(kLastPackage), prompts);
    line["acceptance"] = figures;
    const double score = figures.empty() ? -1 : figures.front().get<double>();
    if (score > position_.best) {
      position_.best = score;
      position_.best_step = position_.step;
      export_package(kBestPackage);
    }
  }
  log_->add(line);
  draw_log(log_->lines(), options_.out);
}

TrainResult Trainer::run() {
  if (position_.step == 0) {
    begin_epoch();
    evaluate();
    save();
  }
  while (wanted_ && !over() &&
         (options_.minutes <= 0 || ms_since(begin_) < 6e4 * options_.minutes)) {
    step();
    if (position_.step % options_.eval_every == 0) evaluate();
    if (position_.step % options_.save_every == 0) save();
  }
  if (evaluated_ != position_.step && wanted_) evaluate();
  save();
  return {over(),         position_.step,     position_.tokens, position_.seconds,
          position_.best, position_.best_step};
}

}  // namespace

TrainResult train(const TrainOptions& options, const TrainTarget& target, const TrainHooks& hooks) {
  Trainer trainer(options, target, hooks);
  return trainer.run();
}

}  // namespace clover
