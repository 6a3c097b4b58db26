// SPDX-License-Identifier: Apache-2.0
// Training end to end on a toy language, whose text is known.
#include "train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "speculation/speculators/package.h"
#include "train/run_state.h"
#include "train/torch/processes_for_tests.h"
#include "train/torch/toy_language.h"

namespace clover {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using train_testing::toy_next;
using train_testing::toy_text;

struct Toy {
  Toy() {
    train_testing::write_toy_model(folder / "model");
    checkpoint = open_checkpoint(folder / "model");
    tokenizer = load_tokenizer(*checkpoint);
    model = Model::load(*checkpoint, make_cpu_backend({.threads = 1, .isa = "auto"}));
    train_testing::write_toy_data(folder / "data", *checkpoint, 188);
  }
  ScratchFolder folder;
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<Tokenizer> tokenizer;
  std::shared_ptr<const Model> model;
};

const Toy& toy() {
  static const Toy shared;
  return shared;
}

TrainOptions options(const std::string& out) {
  TrainOptions o;
  o.out = out;
  o.data = {toy().folder / "data"};
  o.recipe = preset_recipe("ours", 4);
  o.recipe.rate = 1e-2;
  o.recipe.warm_up = 10;
  o.recipe.schedule = RateSchedule::kConstant;
  o.recipe.switches->block_layers = 1;
  o.recipe.heads = 3;
  o.draft_vocab = 96;
  o.weights = DType::kF32;
  o.compute = DType::kF32;
  o.batches = {.max_length = 64, .batch_tokens = 200, .held_out_share = 0.1, .seed = 0};
  o.max_tokens = 1'000'000'000;
  o.log_every = 1;
  o.save_every = 1'000'000;
  o.eval_every = 1'000'000;
  o.threads = 1;
  return o;
}

TrainResult train_toy(const TrainOptions& o, const TrainHooks& hooks = {}) {
  return train(o, {*toy().checkpoint, toy().model}, hooks);
}

// Accepted and drafted tokens of answers in the toy language, by depth.
RequestStats decode(const std::string& package, int64_t nodes) {
  EngineOptions engine_options;
  engine_options.context = 128;
  engine_options.max_sequences = 1;
  engine_options.speculators = open_package(package, *toy().checkpoint, toy().model);
  engine_options.tree = TreePolicy::parse(fmt::format("chain{}", nodes));
  Engine engine(toy().model, *toy().tokenizer, engine_options);
  RequestStats sum;
  sum.drafted_at_depth.resize(static_cast<size_t>(nodes));
  sum.accepted_at_depth.resize(static_cast<size_t>(nodes));
  for (TokenId first = train_testing::kToyFirst; first < train_testing::kToyVocab; first += 9) {
    Request request;
    request.prompt = {first, toy_next(first)};
    request.max_tokens = 60;
    std::vector<TokenId> text = request.prompt;
    request.on_output = [&](const Output& output) {
      for (const OutputToken& token : output.tokens) text.push_back(token.id);
    };
    const int64_t id = engine.submit(std::move(request));
    engine.run();
    EXPECT_EQ(text, toy_text(first, 62));
    const RequestStats& stats = *engine.stats(id);
    sum.drafted += stats.drafted;
    sum.accepted += stats.accepted;
    for (size_t d = 0; d < stats.drafted_at_depth.size(); ++d) {
      sum.drafted_at_depth[d] += stats.drafted_at_depth[d];
      sum.accepted_at_depth[d] += stats.accepted_at_depth[d];
    }
    engine.forget(id);
  }
  return sum;
}

double share(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<int64_t>(whole, 1));
}

std::string bytes_of(const std::string& path) { return read_file(path, 1 << 26); }

std::vector<Json> log_of(const std::string& folder) {
  std::vector<Json> lines;
  std::ifstream file(folder + "/" + kTrainLogFile);
  for (std::string line; std::getline(file, line);) lines.push_back(parse_json(line, "log"));
  return lines;
}

class ToyTraining : public ::testing::Test {
 protected:
  std::string fault(const TrainOptions& o, ErrorCode code = ErrorCode::kInvalidArgument) {
    return error_text([&] { train_toy(o); }, code);
  }
  ScratchFolder scratch_;
};

// H1: labels that are one position off would give a low loss and no acceptance at all.
TEST_F(ToyTraining, after_200_steps_the_engine_accepts_what_is_drafted) {
  TrainOptions o = options(scratch_ / "run");
  o.max_steps = 200;
  const TrainResult result = train_toy(o);
  EXPECT_EQ(result.steps, 200);
  EXPECT_TRUE(result.finished);
  const RequestStats stats = decode(scratch_ / "run/last", 3);
  EXPECT_GT(share(stats.accepted, stats.drafted), 0.99);
  // Teacher-forced top-1 of the first head is the engine's rate of first drafts, to a point.
  const Json held_out = log_of(scratch_ / "run").back()["held_out"];
  EXPECT_NEAR(held_out[0]["teacher_forced_top1"].get<double>(),
              share(stats.accepted_at_depth[0], stats.drafted_at_depth[0]), 0.01);
}

class EveryPreset : public ::testing::TestWithParam<std::string> {};

// H1 for every structure of the zoo, and with it its trainer forward against the engine.
TEST_P(EveryPreset, learns_the_toy_language) {
  const ScratchFolder scratch;
  TrainOptions o = options(scratch / "run");
  o.recipe = preset_recipe(GetParam(), 4);
  o.recipe.rate = 1e-2;
  o.recipe.warm_up = 10;
  o.recipe.schedule = RateSchedule::kConstant;
  o.recipe.heads = 3;
  o.max_steps = 300;
  train_toy(o);
  const RequestStats stats = decode(scratch / "run/last", 3);
  const Json held_out = log_of(scratch / "run").back()["held_out"];
  for (size_t d = 0; d < 3; ++d) {
    // Engine and trainer agree at every depth, and beat chance (1 in 94) by far at the first.
    EXPECT_NEAR(held_out[d]["teacher_forced_top1"].get<double>(),
                share(stats.accepted_at_depth[d], stats.drafted_at_depth[d]), 0.03)
        << "depth " << d;
  }
  EXPECT_GT(share(stats.accepted_at_depth[0], stats.drafted_at_depth[0]), 0.95);
}

INSTANTIATE_TEST_SUITE_P(Zoo, EveryPreset,
                         ::testing::Values("ours", "clover2", "clover1", "medusa", "eagle",
                                           "combo-0", "combo-ra"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

// H8
TEST_F(ToyTraining, one_batch_is_learned_by_heart) {
  TrainOptions o = options(scratch_ / "run");
  train_testing::write_toy_data(scratch_ / "data", *toy().checkpoint, 24);
  o.data = {scratch_ / "data"};
  o.batches.batch_tokens = 1 << 20;
  o.batches.held_out_share = 0;
  o.recipe.feature_weight = 0;
  o.recipe.token_loss = TokenLoss::kText;
  o.max_steps = 150;
  train_toy(o);
  const std::vector<Json> log = log_of(scratch_ / "run");
  double last = 1;
  for (const Json& line : log)
    if (line.contains("loss")) last = line["loss"].get<double>();
  EXPECT_LT(last, 0.01);
}

TEST_F(ToyTraining, a_resumed_run_equals_an_unbroken_one) {
  TrainOptions whole = options(scratch_ / "whole");
  whole.max_steps = 30;
  whole.accumulate = 2;
  train_toy(whole);
  TrainOptions parts = whole;
  parts.out = scratch_ / "parts";
  for (int stop_after : {4, 11, 100}) {
    parts.resume = true;
    int64_t first = -1;
    train_toy(parts, {.report = [&](const TrainProgress& progress) {
                if (first < 0) first = progress.step;
                return progress.step < first + stop_after;
              }});
  }
  std::vector<SavedRun> runs;
  for (const char* name : {"whole", "parts"})
    runs.push_back(read_state(scratch_ / (std::string(name) + "/" + kStateFile)));
  EXPECT_EQ(runs[0].position.step, 30);
  EXPECT_EQ(runs[1].position.step, 30);
  EXPECT_EQ(runs[1].position.tokens, runs[0].position.tokens);
  EXPECT_EQ(bytes_of(scratch_ / "whole/last/model.safetensors"),
            bytes_of(scratch_ / "parts/last/model.safetensors"));
  std::vector<double> losses[2];
  for (size_t i = 0; i < 2; ++i)
    for (const Json& line : log_of(scratch_ / (i == 0 ? "whole" : "parts")))
      if (line.contains("loss")) losses[i].push_back(line["loss"].get<double>());
  EXPECT_EQ(losses[0].size(), 30u);
  EXPECT_EQ(losses[0], losses[1]);
}

// H15
TEST_F(ToyTraining, killed_at_any_time_it_goes_on_from_its_last_state) {
  TrainOptions whole = options(scratch_ / "whole");
  whole.max_steps = 40;
  train_toy(whole);
  TrainOptions killed = whole;
  killed.out = scratch_ / "killed";
  killed.resume = true;
  killed.save_every = 3;
  int64_t lost = 0;
  for (const int wait_ms : {300, 700, 500, 900}) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        train_toy(killed);
      } catch (...) {
        _exit(1);
      }
      _exit(0);
    }
    usleep(1000 * static_cast<unsigned>(wait_ms));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    if (!fs::exists(killed.out + "/" + kStateFile)) continue;
    int64_t logged = 0;
    for (const Json& line : log_of(killed.out)) logged = line["step"].get<int64_t>();
    lost = std::max(lost, logged - read_state(killed.out + "/" + kStateFile).position.step);
  }
  EXPECT_LE(lost, 3);
  train_toy(killed);
  EXPECT_EQ(bytes_of(scratch_ / "whole/last/model.safetensors"),
            bytes_of(scratch_ / "killed/last/model.safetensors"));
  for (const auto& entry : fs::recursive_directory_iterator(killed.out))
    EXPECT_FALSE(entry.path().string().ends_with(".tmp")) << entry.path();
}

// One with twice the batch; begun by two and gone on with by one; two that stop at a step together.
TEST_F(ToyTraining, two_processes_are_one_with_twice_the_batch) {
  TrainOptions one = options(scratch_ / "one");
  one.accumulate = 2;
  one.max_steps = 12;
  train_toy(one);
  TrainOptions two = options(scratch_ / "two");
  two.max_steps = 12;
  EXPECT_EQ(train_testing::run_processes(2, [&] { EXPECT_EQ(train_toy(two).steps, 12); }), 0);
  EXPECT_EQ(bytes_of(scratch_ / "one/last/model.safetensors"),
            bytes_of(scratch_ / "two/last/model.safetensors"));
  EXPECT_EQ(log_of(scratch_ / "one").back()["held_out"],
            log_of(scratch_ / "two").back()["held_out"]);

  two.out = scratch_ / "mixed";
  TrainHooks hooks;
  hooks.report = [](const TrainProgress& progress) { return progress.step < 5; };
  EXPECT_EQ(train_testing::run_processes(2, [&] { EXPECT_EQ(train_toy(two, hooks).steps, 5); }), 0);
  one.out = two.out;
  one.resume = true;
  EXPECT_EQ(train_toy(one).steps, 12);
  EXPECT_EQ(bytes_of(scratch_ / "one/last/model.safetensors"),
            bytes_of(scratch_ / "mixed/last/model.safetensors"));
}

// H6, H7
TEST_F(ToyTraining, the_package_that_decodes_best_is_kept) {
  TrainOptions o = options(scratch_ / "run");
  o.max_steps = 8;
  o.eval_every = 2;
  std::vector<double> scores = {0.1, 0.9, 0.3, 0.9, 0.2};
  size_t asked = 0;
  std::string best;
  const TrainResult result =
      train_toy(o, {.evaluate = [&](const std::string& package, const auto& prompts) {
                  EXPECT_FALSE(prompts.empty());
                  if (asked == 1) best = bytes_of(package + "/model.safetensors");
                  return Json{{"score", scores.at(asked++)}, {"other", 7}};
                }});
  EXPECT_EQ(asked, 5u);
  EXPECT_EQ(result.best, 0.9);
  EXPECT_EQ(result.best_step, 2);
  EXPECT_EQ(bytes_of(scratch_ / "run/best/model.safetensors"), best);
  EXPECT_NE(bytes_of(scratch_ / "run/last/model.safetensors"), best);
  EXPECT_THAT(bytes_of(scratch_ / "run/acceptance.svg"), HasSubstr("other"));
  EXPECT_THAT(bytes_of(scratch_ / "run/loss.svg"), HasSubstr("head 3"));
}

TEST_F(ToyTraining, an_exported_package_can_be_trained_further) {
  TrainOptions o = options(scratch_ / "run");
  o.max_steps = 100;
  train_toy(o);
  TrainOptions more = options(scratch_ / "more");
  more.init = scratch_ / "run/last";
  more.max_steps = 1;
  train_toy(more);
  // The first step of the new run begins where the other ended, not at random.
  const double first = log_of(scratch_ / "more")[1]["loss"].get<double>();
  const double fresh = log_of(scratch_ / "run")[1]["loss"].get<double>();
  EXPECT_LT(first, 0.5 * fresh);
}

TEST_F(ToyTraining, a_run_is_not_overwritten_and_not_mixed_with_another) {
  TrainOptions o = options(scratch_ / "run");
  o.max_steps = 1;
  train_toy(o);
  EXPECT_THAT(fault(o), HasSubstr("holds a run already; --resume goes on with it"));
  o.resume = true;
  o.recipe.rate = 0.5;
  EXPECT_THAT(fault(o), HasSubstr("recipe/rate (0.01 there, 0.5 here)"));
}

TEST_F(ToyTraining, a_loss_that_is_no_number_stops_and_says_where) {
  TrainOptions o = options(scratch_ / "run");
  o.max_steps = 50;
  o.save_every = 1;
  // Poison: the state that it resumes from holds a weight that is no number.
  TrainOptions begin = o;
  begin.max_steps = 1;
  train_toy(begin);
  const std::string path = scratch_ / ("run/" + std::string(kStateFile));
  std::string bytes = bytes_of(path);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + sizeof(header) + header, &nan, sizeof(nan));  // of the first weight
  write_file(path, bytes);
  o.resume = true;
  const std::string text = fault(o);
  EXPECT_THAT(text, HasSubstr("the loss or its gradient is no number in step"));
  EXPECT_THAT(text, HasSubstr("texts "));
  EXPECT_EQ(read_state(path).position.step, 1);
}

TEST_F(ToyTraining, data_of_another_target_is_refused) {
  TrainOptions o = options(scratch_ / "run");
  const ScratchFolder other;
  train_testing::write_tiny_model(other / "model", train_testing::kTemplate);
  train_testing::write_toy_data(other / "data", *open_checkpoint(other / "model"), 8);
  o.data = {other / "data"};
  EXPECT_THAT(fault(o), HasSubstr("was written by another target"));
}

TEST_F(ToyTraining, a_full_disk_keeps_the_state_before) {
  TrainOptions o = options(scratch_ / "run");
  o.max_steps = 2;
  train_toy(o);
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {4096, before.rlim_max};
  o.max_steps = 4;
  o.resume = true;
  setrlimit(RLIMIT_FSIZE, &small);
  fault(o, ErrorCode::kExhausted);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(read_state(scratch_ / ("run/" + std::string(kStateFile))).position.step, 2);
  EXPECT_EQ(train_toy(o).steps, 4);
}

}  // namespace
}  // namespace clover
