// SPDX-License-Identifier: Apache-2.0
// What a training run keeps on the disk: features, state and log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <limits>

#include "checkpoint/writer.h"
#include "train/feature_cache.h"
#include "train/run_state.h"
#include "train/train_fixtures.h"
#include "train/train_log.h"

namespace clover {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kTarget(64, 'c');

std::string bytes_of(const std::string& path) { return read_file(path, 1 << 24); }
void truncate_to(const std::string& path, uintmax_t size) { fs::resize_file(path, size); }

// While one lives, no file of this process can grow beyond `bytes`: a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
};

class Cache : public ::testing::Test {
 protected:
  void fill() {
    FeatureCache cache(path_, kTarget, 2);
    cache.write(a_, values_.data());
    cache.write(b_, values_.data() + 2);
  }
  bool has(FeatureCache& cache, std::span<const TokenId> text) {
    std::vector<float> out(text.size() * 2);
    return cache.read(text, out.data());
  }
  std::string fault() {
    return error_text([&] { FeatureCache(path_, kTarget, 2); }, ErrorCode::kInvalidArgument);
  }
  ScratchFolder scratch_;
  std::string path_ = scratch_ / "features.bin";
  std::vector<TokenId> a_ = {1, 2, 3};
  std::vector<TokenId> b_ = {1, 2};
  std::vector<float> values_ = {1, -2.5f, 3, 4, 1e9f, -1e9f};
};

TEST_F(Cache, keeps_what_was_written) {
  fill();
  FeatureCache cache(path_, kTarget, 2);
  EXPECT_EQ(cache.texts(), 2);
  std::vector<float> out(6);
  ASSERT_TRUE(cache.read(a_, out.data()));
  EXPECT_EQ(out, (std::vector<float>{1, -2.5f, 3, 4, 65504, -65504}));
  EXPECT_FALSE(has(cache, std::vector<TokenId>{1, 2, 4}));
  EXPECT_EQ(FeatureCache::bytes(2, 5, 2), fs::file_size(path_));
}

TEST_F(Cache, a_record_that_was_cut_off_is_written_anew) {
  fill();
  const uintmax_t size = fs::file_size(path_);
  for (uintmax_t cut = size - 1; cut > size - 30; --cut) {
    truncate_to(path_, cut);
    FeatureCache cache(path_, kTarget, 2);
    EXPECT_TRUE(has(cache, a_));
    EXPECT_FALSE(has(cache, b_));
  }
  FeatureCache cache(path_, kTarget, 2);
  cache.write(b_, values_.data());
  EXPECT_TRUE(has(cache, b_));
  EXPECT_EQ(fs::file_size(path_), size);
}

TEST_F(Cache, a_record_with_other_bytes_is_passed_over) {
  fill();
  std::string bytes = bytes_of(path_);
  bytes.back() ^= 1;
  write_file(path_, bytes);
  FeatureCache cache(path_, kTarget, 2);
  EXPECT_TRUE(has(cache, a_));
  EXPECT_FALSE(has(cache, b_));
}

TEST_F(Cache, another_file_is_refused) {
  fill();
  EXPECT_THAT(error_text([&] { FeatureCache(path_, std::string(64, 'd'), 2); },
                         ErrorCode::kInvalidArgument),
              HasSubstr("features of another target"));
  EXPECT_THAT(error_text([&] { FeatureCache(path_, kTarget, 3); }, ErrorCode::kInvalidArgument),
              HasSubstr("features of another target"));
  write_file(path_, "a file of twenty byte");
  EXPECT_THAT(fault(), HasSubstr("is no file of features"));
  write_file(path_, std::string(200, 'x'));
  EXPECT_THAT(fault(), HasSubstr("is no file of features"));
  fs::remove(path_);
  const FeatureCache open(path_, kTarget, 2);
  EXPECT_THAT(fault(), HasSubstr("in use by another process"));
}

TEST_F(Cache, a_full_disk_keeps_earlier_texts) {
  fill();
  {
    FeatureCache cache(path_, kTarget, 2);
    const FullDisk full(fs::file_size(path_) + 30);
    EXPECT_THAT(error_text(
                    [&] {
                      cache.write(std::vector<TokenId>{7, 8, 9}, values_.data());
                    },
                    ErrorCode::kExhausted),
                HasSubstr("the features of 2 texts are kept"));
  }
  FeatureCache cache(path_, kTarget, 2);
  EXPECT_EQ(cache.texts(), 2);
  EXPECT_TRUE(has(cache, b_));
}

class State : public ::testing::Test {
 protected:
  std::vector<StateTensor> tensors(std::vector<float>& values) {
    return {{"w", {2, 2}, std::span(values).first(4)}, {"b", {1}, std::span(values).last(1)}};
  }
  void save(float first) {
    std::vector<float> values = {first, 2, 3, 4, 5};
    RunPosition position;
    position.step = static_cast<int64_t>(first);
    position.shards = {3, 4};
    position.best = 0.1;
    save_state(path_, position, {{"rate", 0.1}, {"data", {"a"}}}, tensors(values));
  }
  ScratchFolder scratch_;
  std::string path_ = scratch_ / "state.safetensors";
};

TEST_F(State, comes_back_bit_for_bit) {
  save(7);
  std::vector<float> values(5);
  load_state(path_, tensors(values));
  EXPECT_EQ(values, (std::vector<float>{7, 2, 3, 4, 5}));
  const SavedRun run = read_state(path_);
  EXPECT_EQ(run.position.step, 7);
  EXPECT_EQ(run.position.shards, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(run.position.best, 0.1);
  EXPECT_EQ(run.settings, (Json{{"rate", 0.1}, {"data", {"a"}}}));
}

TEST_F(State, what_does_not_fit_is_named) {
  save(7);
  std::vector<float> values(5);
  const std::vector<StateTensor> wanted = {{"other", {1}, std::span(values).first(1)}};
  EXPECT_THAT(error_text([&] { load_state(path_, wanted); }), HasSubstr("tensor other is missing"));
  const std::vector<StateTensor> shape = {{"w", {4}, std::span(values).first(4)}};
  EXPECT_THAT(error_text([&] { load_state(path_, shape); }),
              HasSubstr("tensor w has another type"));
  write_safetensors(path_, {}, {{"format", "pt"}});
  EXPECT_THAT(error_text([&] { read_state(path_); }), HasSubstr("holds no position"));
  const std::string bytes = bytes_of(path_);
  write_file(path_, bytes.substr(0, bytes.size() / 2));
  error_text([&] { read_state(path_); });
}

TEST_F(State, a_full_disk_keeps_the_state_before) {
  save(7);
  {
    const FullDisk full(100);
    error_text([&] { save(8); }, ErrorCode::kExhausted);
  }
  EXPECT_EQ(read_state(path_).position.step, 7);
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch_.path()), fs::directory_iterator()), 1);
}

TEST(RunsFolder, is_for_one_process_and_cleared_of_what_a_killed_one_left) {
  const ScratchFolder scratch;
  const std::string path = scratch / "a/run";
  fs::create_directories(path + "/.last.x1y2z3");
  fs::create_directories(path + "/last");
  write_file(path + "/.last.x1y2z3/model.safetensors", "part");
  write_file(path + "/state.safetensors.77-0.tmp", "part");
  write_file(path + "/state.safetensors", "whole");
  const RunFolder folder(path);
  EXPECT_FALSE(fs::exists(path + "/.last.x1y2z3"));
  EXPECT_FALSE(fs::exists(path + "/state.safetensors.77-0.tmp"));
  EXPECT_TRUE(fs::exists(path + "/last"));
  EXPECT_EQ(bytes_of(path + "/state.safetensors"), "whole");
  EXPECT_THAT(error_text([&] { const RunFolder again(path); }, ErrorCode::kInvalidArgument),
              HasSubstr("another process trains in"));
  error_text([&] { const RunFolder below(path + "/state.safetensors/x"); }, ErrorCode::kIo);
}

TEST(Settings, every_difference_is_named) {
  const Json saved = {{"recipe", {{"rate", 0.1}, {"decay", 0.7}}}, {"data", {"a"}}, {"old", 1}};
  check_settings(saved, saved, "run");
  const Json wanted = {{"recipe", {{"rate", 0.2}, {"decay", 0.7}}}, {"data", {"a", "b"}}};
  const std::string text =
      error_text([&] { check_settings(saved, wanted, "run"); }, ErrorCode::kInvalidArgument);
  EXPECT_THAT(text, HasSubstr("run was trained with other settings"));
  EXPECT_THAT(text, HasSubstr("recipe/rate (0.1 there, 0.2 here)"));
  EXPECT_THAT(text, HasSubstr("data/1 (nothing there, \"b\" here)"));
  EXPECT_THAT(text, HasSubstr("old (1 there, nothing here)"));
  EXPECT_THAT(text, Not(HasSubstr("decay")));
}

TEST(Log, goes_on_behind_the_step_of_the_state) {
  const ScratchFolder scratch;
  const std::string path = scratch / "log.jsonl";
  {
    TrainLog log(path, -1);
    for (int64_t step = 1; step <= 4; ++step) log.add({{"step", step}, {"loss", 1.0 / step}});
  }
  std::string text = bytes_of(path);
  write_file(path, text + "{\"step\": 5, \"lo");  // killed while writing
  TrainLog log(path, 2);
  EXPECT_EQ(log.lines().size(), 2u);
  log.add({{"step", 3}});
  EXPECT_EQ(TrainLog(path, 9).lines().size(), 3u);
  write_file(path, "{\"loss\": 1}\n");
  EXPECT_THAT(error_text([&] { TrainLog(path, 9); }), HasSubstr("a line without a step"));
  const FullDisk full(4);
  error_text([&] { log.add({{"step", 4}}); }, ErrorCode::kExhausted);
}

TEST(Curves, are_drawn_from_the_log) {
  const ScratchFolder scratch;
  draw_log({{{"step", 1}, {"tokens", 100}, {"heads", {{{"loss", 2.0}}, {{"loss", 3.0}}}}},
            {{"step", 2}, {"tokens", 200}, {"acceptance", {{"tree 8", 1.5}}}}},
           scratch.path());
  EXPECT_THAT(bytes_of(scratch / "loss.svg"), HasSubstr("head 2"));
  EXPECT_THAT(bytes_of(scratch / "acceptance.svg"), HasSubstr("tree 8"));
}

}  // namespace
}  // namespace clover
