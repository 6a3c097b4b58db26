// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "backend/torch_backend.h"
#include "base/clock.h"
#include "base/error.h"
#include "model/fingerprint.h"
#include "train/batch_source.h"
#include "train/run_state.h"
#include "train/torch/first_package.h"
#include "train/torch/head_sums.h"
#include "train/torch/objective.h"
#include "train/torch/optimiser.h"
#include "train/torch/train_group.h"
#include "train/train_log.h"

namespace clover {
namespace {

namespace fs = std::filesystem;

// Held-out texts that teacher-forced figures are taken on.
constexpr int64_t kHeldOutBatches = 4;
constexpr double kPresentations = 3;  // of the data, where nothing says how long to train

// Without features where there are none.
TrainingBatch to_torch(TextRows rows, int64_t hidden) {
  TrainingBatch batch;
  if (!rows.features.empty())
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

class Trainer {
 public:
  Trainer(const TrainOptions& options, const TrainTarget& target, const TrainHooks& hooks);
  TrainResult run();

 private:
  std::string file(const char* name) const { return (fs::path(options_.out) / name).string(); }
  std::vector<StateTensor> tensors();
  void resume();
  void save();
  void step();
  std::vector<HeadSums> learn(const std::vector<TextBatch>& batches);
  [[noreturn]] void bad_loss(const std::vector<TextBatch>& batches) const;
  std::vector<TextBatch> next_batches();
  void begin_epoch();
  std::vector<int64_t> shared_shards(const std::vector<int64_t>& shards);
  void add_over_processes(std::vector<HeadSums>& sums);
  bool go_on();
  void evaluate();
  void export_package(const char* name);
  Json held_out_scores();
  void log_step(const std::vector<HeadSums>& sums, double rate, double length);
  void report(const char* doing);
  double tokens_per_second(double seconds) const {
    return static_cast<double>(position_.tokens - tokens_before_) / seconds;
  }
  double done() const;
  bool over() const;
  // Of all processes together.
  int64_t step_batches() const { return options_.accumulate * group_.size(); }

  const TrainOptions& options_;
  const TrainHooks& hooks_;
  TrainGroup group_;
  std::optional<RunFolder> folder_;  // the first process's
  TrainTarget target_;
  std::string fingerprint_;
  Json settings_;
  RunPosition position_;
  std::optional<BatchSource> source_;
  std::vector<TextBatch> epoch_;
  int64_t max_tokens_ = 0;
  std::optional<Trainable> speculator_;
  std::optional<Objective> objective_;
  std::optional<Optimiser> optimiser_;
  std::optional<TrainLog> log_;
  Clock::time_point begin_ = Clock::now();
  double seconds_before_ = 0;
  int64_t tokens_before_ = 0;
  int64_t evaluated_ = -1;  // step of the last evaluation
  double loss_ = 0;
  bool told_ = false;   // this process was told to stop
  bool wanted_ = true;  // to go on: no process was
};

Trainer::Trainer(const TrainOptions& options, const TrainTarget& target, const TrainHooks& hooks)
    : options_(options),
      hooks_(hooks),
      group_(group_from_environment()),
      target_(target),
      fingerprint_(model_fingerprint(target.checkpoint)) {
  validate(options.recipe);
  if (group_.first()) folder_.emplace(options.out);
  // What the first process finds holds for all: it may write there as soon as it has begun.
  const bool there = group_.share(fs::exists(file(kStateFile)) ? "there" : "") == "there";
  if (there && !options.resume)
    fail(ErrorCode::kInvalidArgument, "{} holds a run already; --resume goes on with it",
         options.out);
  if (there) {
    const SavedRun saved = read_state(file(kStateFile));
    position_ = saved.position;
    settings_ = saved.settings;
  }
  const std::string cache =
      group_.first() ? "features.bin" : fmt::format("features-{}.bin", group_.rank());
  source_.emplace(BatchSourceOptions{options.data, options.batches, position_.shards,
                                     options.cache_features ? file(cache.c_str()) : ""},
                  target.model, fingerprint_);
  const std::vector<int64_t> shards = shared_shards(source_->shards());
  if (shards != source_->shards()) source_->reopen(shards);
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
                       {"accumulate", step_batches()}};
  if (there) check_settings(settings_, wanted, options.out);
  settings_ = wanted;
  const DType compute =
      options.compute.value_or(torch_prefers_bf16("cpu") ? DType::kBF16 : DType::kF32);
  const auto backend = make_torch_backend({.threads = options.threads, .type = compute});
  speculator_.emplace(there ? read_package(file(kLastPackage), target.checkpoint)
                            : first_package(options, target, data, hooks.note),
                      target.checkpoint, Model::load_frame(target.checkpoint, backend));
  objective_.emplace(*speculator_, options.recipe);
  optimiser_.emplace(values_of(speculator_->parameters()), options.recipe,
                     compute == DType::kBF16 ? at::kBFloat16 : at::kFloat);
  if (group_.first()) log_.emplace(file(kTrainLogFile), there ? position_.step : -1);
  if (there) resume();
  group_.share("");  // nobody writes before all have read
}

std::vector<int64_t> Trainer::shared_shards(const std::vector<int64_t>& shards) {
  return parse_json(group_.share(Json(shards).dump()), "shards").get<std::vector<int64_t>>();
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
  if (!group_.first()) return;
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

void Trainer::report(const char* doing) {
  if (!hooks_.report) return;
  const double seconds = ms_since(begin_) / 1000;
  told_ = !hooks_.report({.step = position_.step,
                          .tokens = position_.tokens,
                          .max_tokens = max_tokens_,
                          .epoch = position_.epoch,
                          .loss = loss_,
                          .tokens_per_second = tokens_per_second(seconds),
                          .feature_share = source_->feature_seconds() / seconds,
                          .best = position_.best,
                          .doing = doing}) ||
          told_;
}

// New shards come in between epochs, so that a saved position always means the same texts.
void Trainer::begin_epoch() {
  if (position_.step > 0) {
    if (group_.first()) source_->reopen();
    const std::vector<int64_t> shards = shared_shards(source_->shards());
    if (!group_.first()) source_->reopen(shards);
  }
  position_.shards = source_->shards();
  epoch_ = source_->data().epoch(position_.epoch);
  position_.batch = 0;
}

std::vector<TextBatch> Trainer::next_batches() {
  std::vector<TextBatch> batches;
  while (std::ssize(batches) < step_batches()) {
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
  const int64_t hidden = target_.model->config().hidden;
  std::vector<TrainingBatch> rows;
  std::vector<int64_t> step_rows(static_cast<size_t>(heads));
  for (size_t i = 0; i < batches.size(); ++i) {
    // The first batches of a step are the first process's.
    const bool own = static_cast<int64_t>(i) / options_.accumulate == group_.rank();
    TrainingBatch batch =
        to_torch(own ? source_->load(batches[i]) : source_->labels(batches[i]), hidden);
    const std::vector<int64_t> counts = count_rows(batch, heads);
    for (size_t j = 0; j < counts.size(); ++j) step_rows[j] += counts[j];
    for (const uint8_t loss : batch.loss) position_.tokens += loss;
    if (own) rows.push_back(std::move(batch));
  }
  std::vector<HeadSums> sums(static_cast<size_t>(heads));
  for (const TrainingBatch& batch : rows) {
    const std::vector<HeadSums> part = objective_->run(batch, step_rows, true);
    for (size_t j = 0; j < part.size(); ++j) sums[j] += part[j];
  }
  add_over_processes(sums);
  return sums;
}

void Trainer::add_over_processes(std::vector<HeadSums>& sums) {
  if (group_.size() == 1) return;
  std::vector<double> values = values_of(sums);
  group_.sum(values);
  sums = sums_of(values);
  std::vector<at::Tensor> gradients = optimiser_->gradients();
  group_.sum(gradients, values_of(speculator_->parameters()));
  optimiser_->set_gradients(gradients);
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

void Trainer::step() {
  const std::vector<TextBatch> batches = next_batches();
  const double rate = learning_rate(options_.recipe, position_.step, done());
  const std::vector<HeadSums> sums = learn(batches);
  loss_ = loss_of(sums, options_.recipe);
  if (!std::isfinite(loss_)) bad_loss(batches);
  const double length = optimiser_->step(rate);
  if (!std::isfinite(length)) bad_loss(batches);
  ++position_.step;
  if (log_ && position_.step % options_.log_every == 0) log_step(sums, rate, length);
  report("training");
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
  if (!group_.first()) return;
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

// All processes stop at the same step.
bool Trainer::go_on() {
  const bool late = options_.minutes > 0 && ms_since(begin_) >= 6e4 * options_.minutes;
  std::array<double, 2> stop = {told_ ? 1.0 : 0.0, late ? 1.0 : 0.0};
  group_.sum(stop);
  wanted_ = stop[0] == 0;
  return wanted_ && stop[1] == 0 && !over();
}

TrainResult Trainer::run() {
  if (position_.step == 0) {
    begin_epoch();
    evaluate();
    save();
  }
  while (go_on()) {
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
