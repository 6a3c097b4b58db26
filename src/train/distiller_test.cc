// SPDX-License-Identifier: Apache-2.0
#include "train/distiller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "model/fingerprint.h"
#include "speculation/speculators/ngram.h"
#include "train/dataset.h"
#include "train/train_fixtures.h"

namespace clover {
namespace {

namespace fs = std::filesystem;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int64_t kContext = 160;
const SpeculatorFactory kNgram = [](const SpeculatorHost&) {
  return std::make_unique<NgramSpeculator>();
};

// The tiny model and what a run needs of it.
struct Target {
  explicit Target(const std::string& chat_template = train_testing::kTemplate) {
    train_testing::write_tiny_model(folder / "model", chat_template);
    const auto checkpoint = open_checkpoint(folder / "model");
    tokenizer = load_tokenizer(*checkpoint);
    model = Model::load(*checkpoint, make_cpu_backend({.threads = 1, .isa = "auto"}));
    fingerprint = model_fingerprint(*checkpoint);
  }
  ScratchFolder folder;
  std::unique_ptr<Tokenizer> tokenizer;
  std::shared_ptr<const Model> model;
  std::string fingerprint;
};

const Target& target() {
  static const Target shared;
  return shared;
}

struct Plan {
  int64_t batch = 4;
  int64_t shard = 5;
  int64_t self_drawn = 0;
  uint64_t seed = 3;
  int64_t max_tokens = 12;
  double greedy_share = 0.5;
  std::vector<SpeculatorFactory> speculators = {};
  std::string excluded = {};
  int64_t stop_after = -1;  // steps
};

class DistillerTest : public ::testing::Test {
 protected:
  std::string write_prompts(const std::string& name, int count, const std::string& extra = {}) {
    std::string text;
    for (int i = 0; i < count; ++i) text += fmt::format("{{\"prompt\":\"say {}\"}}\n", i * i);
    write_file(scratch_ / name, text + extra);
    return scratch_ / name;
  }

  // Runs into the folder `name`; whether everything was done.
  bool run(const std::string& name, const std::vector<std::string>& files, const Plan& plan,
           const Target& of = target()) {
    const PromptMaker maker(*of.tokenizer);
    ExclusionSet exclusion;
    if (!plan.excluded.empty()) exclusion.add(plan.excluded);
    PromptList prompts(maker, exclusion, {false, kContext - plan.max_tokens});
    for (const std::string& file : files) prompts.add_file(file);
    prompts.add_self_drawn(plan.self_drawn);
    counts_ = prompts.counts();
    EngineOptions options;
    options.context = kContext;
    options.max_sequences = plan.batch;
    options.speculators = plan.speculators;
    Engine engine(of.model, *of.tokenizer, options);
    DistilledFolder folder(scratch_ / name, {.target = "tiny",
                                             .fingerprint = of.fingerprint,
                                             .vocab = 96,
                                             .seed = plan.seed,
                                             .max_tokens = plan.max_tokens,
                                             .greedy_share = plan.greedy_share,
                                             .context = kContext});
    Distiller distiller(engine, prompts, folder, plan.batch, plan.shard);
    int64_t steps = 0;
    return distiller.run([&](const DistillProgress& progress) {
      EXPECT_LE(engine.engine_stats().running, plan.batch);
      EXPECT_LE(progress.done, progress.tasks);
      return plan.stop_after < 0 || ++steps < plan.stop_after;
    });
  }

  Dataset data(const std::string& name) const { return Dataset({scratch_ / name}); }

  // Every shard's bytes by name.
  std::map<std::string, std::string> shards(const std::string& name) const {
    std::map<std::string, std::string> all;
    for (const std::string& shard : shard_names(scratch_ / name))
      all[shard] = read_file((scratch_ / name) + "/" + shard, 1 << 24);
    return all;
  }

  ScratchFolder scratch_;
  PromptCounts counts_;
};

TEST_F(DistillerTest, AnswersAreThoseOfTheTarget) {
  ASSERT_TRUE(run("d", {write_prompts("p", 12)}, {}));
  const Dataset all = data("d");
  ASSERT_EQ(all.size(), 12u);
  EXPECT_EQ(all.counts().shards, 3);
  Engine engine(target().model, *target().tokenizer, {.context = kContext});
  for (size_t i = 0; i < all.size(); ++i) {
    const DistilledSample sample = all.sample(i);
    const std::string text = target().tokenizer->decode(sample.ids, false);
    EXPECT_TRUE(text.starts_with(fmt::format("[say {}]", i * i))) << text;
    const auto prompt = static_cast<size_t>(std::count(sample.mask.begin(), sample.mask.end(), 0));
    EXPECT_EQ(prompt, fmt::format("[say {}]", i * i).size());
    if (sample.temperature != 0) continue;
    Request request;  // greedy answers can be had without the seed
    request.prompt = {sample.ids.begin(), sample.ids.begin() + static_cast<int64_t>(prompt)};
    request.max_tokens = 12;
    std::vector<TokenId> ids = request.prompt;
    request.on_output = [&](const Output& output) {
      for (const OutputToken& token : output.tokens) ids.push_back(token.id);
    };
    engine.submit(std::move(request));
    engine.run();
    EXPECT_EQ(ids, sample.ids);
  }
  const Dataset::Shares shares = all.shares();
  EXPECT_GT(shares.greedy_samples, 1);
  EXPECT_LT(shares.greedy_samples, 11);
}

TEST_F(DistillerTest, ContentDoesNotDependOnBatchShardsOrSpeculation) {
  const std::string prompts = write_prompts("p", 11);
  ASSERT_TRUE(run("a", {prompts}, {.self_drawn = 9}));
  ASSERT_TRUE(run("b", {prompts}, {.batch = 1, .self_drawn = 9}));
  ASSERT_TRUE(run("c", {prompts}, {.batch = 32, .self_drawn = 9, .speculators = {kNgram}}));
  EXPECT_EQ(shards("a"), shards("b"));
  EXPECT_EQ(shards("a"), shards("c"));
  ASSERT_TRUE(run("d", {prompts}, {.self_drawn = 9, .seed = 4}));
  EXPECT_NE(shards("a"), shards("d"));
}

TEST_F(DistillerTest, ResumedEqualsUnbroken) {
  const std::string prompts = write_prompts("p", 23);
  const Plan whole = {.self_drawn = 14};
  ASSERT_TRUE(run("whole", {prompts}, whole));
  ASSERT_EQ(shards("whole").size(), 8u);
  // Stopped again and again: each run finishes its shard.
  int runs = 1;
  while (!run("broken", {prompts}, {.self_drawn = 14, .stop_after = 3})) ASSERT_LT(++runs, 50);
  EXPECT_GT(runs, 3);
  EXPECT_EQ(shards("broken"), shards("whole"));
  // As after kill -9: any first shards, a half-written file, an old manifest.
  for (int kept = 0; kept < 8; ++kept) {
    const std::string name = fmt::format("killed{}", kept);
    fs::copy(scratch_ / "whole", scratch_ / name);
    int64_t number = 0;
    for (const auto& [shard, bytes] : shards("whole"))
      if (number++ >= kept) fs::remove((scratch_ / name) + "/" + shard);
    write_file((scratch_ / name) + "/shard-000000000005.bin.1-2.tmp", "CLVR");
    ASSERT_TRUE(run(name, {prompts}, whole));
    EXPECT_EQ(shards(name), shards("whole")) << kept;
  }
  // A shard lost in the middle comes back.
  fs::remove((scratch_ / "whole") + "/shard-000000000010.bin");
  ASSERT_TRUE(run("whole", {prompts}, whole));
  EXPECT_EQ(shards("broken"), shards("whole"));
}

TEST_F(DistillerTest, FinishedWorkIsNotDoneAgainAndMoreMayFollow) {
  const std::string first = write_prompts("p", 7);
  ASSERT_TRUE(run("d", {first}, {}));
  const auto before = shards("d");
  ASSERT_TRUE(run("d", {first}, {.stop_after = 1}));  // nothing is left: no step, no stop
  EXPECT_EQ(shards("d"), before);
  const std::string second =
      write_prompts("q", 0, "{\"prompt\":\"more\"}\n{\"prompt\":\"say 4\"}\n");
  ASSERT_TRUE(run("d", {first, second}, {.self_drawn = 2}));
  EXPECT_EQ(counts_.duplicate, 1);
  EXPECT_EQ(data("d").counts().tasks, 10);
  for (const auto& [name, bytes] : before) EXPECT_EQ(shards("d").at(name), bytes);
  // Other prompts at the same places are an error.
  EXPECT_THAT(error_text(
                  [&] {
                    run("d", {second, first}, {});
                  },
                  ErrorCode::kInvalidArgument),
              HasSubstr("other prompts (prompt 1 "));
}

TEST_F(DistillerTest, PromptsAreFilteredAndCounted) {
  const std::string prompts = write_prompts(
      "p", 3,
      "{\"prompt\":\"say 1\"}\n{\"prompt\":\" \"}\n{\"prompt\":\"" + std::string(200, 'x') +
          "\"}\n{\"turns\":[\"hi\",\"a b c d e f g h i j k\"]}\n{\"turns\":[\"say 1\",\"x\"]}\n");
  ASSERT_TRUE(run("d", {prompts}, {.excluded = "A, B, C. D e f g h i j"}));
  EXPECT_EQ(counts_.records, 8);
  EXPECT_EQ(counts_.duplicate, 1);
  EXPECT_EQ(counts_.empty, 1);
  EXPECT_EQ(counts_.too_long, 1);
  EXPECT_EQ(counts_.excluded, 1);
  EXPECT_EQ(counts_.kept, 4);
  std::set<uint64_t> hashes;
  const Dataset all = data("d");
  for (size_t i = 0; i < all.size(); ++i) hashes.insert(all.prompt_hash(i));
  EXPECT_EQ(hashes.size(), 4u);
}

// H2: in a conversation, exactly the drawn tokens are in the mask, and each was drawn behind
// exactly the ids before it.
TEST_F(DistillerTest, MasksOfSeveralTurns) {
  write_file(scratch_ / "p",
             "{\"turns\":[\"one\",\"two\",\"three\"]}\n{\"turns\":[\"a\",\"b\"]}\n");
  ASSERT_TRUE(run("d", {scratch_ / "p"}, {.max_tokens = 9, .greedy_share = 1}));
  const Dataset all = data("d");
  int turns = 0;
  Engine engine(target().model, *target().tokenizer, {.context = kContext});
  for (size_t i = 0; i < all.size(); ++i) {
    const DistilledSample sample = all.sample(i);
    turns += sample.turns;
    int runs = 0;
    for (size_t at = 1; at < sample.ids.size(); ++at) {
      const bool begins = sample.mask[at] == 1 && sample.mask[at - 1] == 0;
      if (!begins) continue;
      ++runs;
      const std::string before = target().tokenizer->decode(std::span(sample.ids).first(at), false);
      EXPECT_TRUE(before.ends_with("]")) << before;
      Request request;
      request.prompt = {sample.ids.begin(), sample.ids.begin() + static_cast<int64_t>(at)};
      request.max_tokens = 9;
      size_t next = at;
      request.on_output = [&](const Output& output) {
        for (const OutputToken& token : output.tokens) {
          ASSERT_LT(next, sample.ids.size());
          EXPECT_EQ(sample.ids[next], token.id);
          EXPECT_EQ(sample.mask[next], 1);
          ++next;
        }
      };
      engine.submit(std::move(request));
      engine.run();
      EXPECT_TRUE(next == sample.ids.size() || sample.mask[next] == 0);
    }
    EXPECT_EQ(runs, sample.turns);
  }
  EXPECT_EQ(turns, 5);
  EXPECT_GT(all.shares().several_turns, 0);
}

// A template that changes earlier answers: no token may claim to have been drawn where it was not.
TEST_F(DistillerTest, AnswersThatTheTemplateChangesBeginANewSample) {
  const Target other(
      "{% for m in messages %}{% if m.role == 'user' %}[{{ m.content }}]{% else %}"
      "({{ m.content | trim }}){% endif %}{% endfor %}");
  write_file(scratch_ / "p", "{\"turns\":[\"one\",\"two\"]}\n");
  ASSERT_TRUE(run("d", {scratch_ / "p"}, {.max_tokens = 9, .greedy_share = 1}, other));
  const Dataset all = data("d");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all.sample(0).first_turn, 0);
  EXPECT_EQ(all.sample(1).first_turn, 1);
  EXPECT_EQ(all.prompt_hash(0), all.prompt_hash(1));
  const DistilledSample second = all.sample(1);
  const std::string text = other.tokenizer->decode(second.ids, false);
  const size_t answer = second.ids.size() - all.response_tokens(1);
  EXPECT_EQ(second.mask[answer - 1], 0);
  EXPECT_EQ(second.mask[answer], 1);
  EXPECT_THAT(text, HasSubstr(")[two]"));
}

TEST_F(DistillerTest, WithoutATemplateTextsGoOnAsTheyAre) {
  const Target plain("");
  write_file(scratch_ / "p", "{\"turns\":[\"one\",\"two\"]}\n");
  ASSERT_TRUE(run("d", {scratch_ / "p"}, {}, plain));
  EXPECT_EQ(counts_.cut, 1);
  ASSERT_EQ(data("d").size(), 1u);
  EXPECT_TRUE(plain.tokenizer->decode(data("d").sample(0).ids, false).starts_with("one"));
  EXPECT_THAT(
      error_text([&] { PromptMaker(*plain.tokenizer).user_prefix(); }, ErrorCode::kUnsupported),
      HasSubstr("template"));
}

TEST_F(DistillerTest, ConversationsEndWithTheContext) {
  std::string turns;
  for (int i = 0; i < 20; ++i) turns += fmt::format("{}\"turn number {}\"", i > 0 ? "," : "", i);
  write_file(scratch_ / "p", "{\"turns\":[" + turns + "]}\n");
  ASSERT_TRUE(run("d", {scratch_ / "p"}, {.max_tokens = 20}));
  const Dataset all = data("d");
  for (size_t i = 0; i < all.size(); ++i) EXPECT_LE(all.tokens(i), kContext);
  EXPECT_LT(all.counts().response_tokens, 20 * 20);
}

TEST_F(DistillerTest, SelfDrawnPromptsAreTheTargetsOwn) {
  ASSERT_TRUE(run("d", {}, {.shard = 8, .self_drawn = 30}));
  const Dataset all = data("d");
  const DistilledCounts counts = all.counts();
  EXPECT_EQ(counts.tasks, 30);
  EXPECT_EQ(counts.samples + counts.dropped.duplicate + counts.dropped.unusable, 30);
  EXPECT_GT(counts.samples, 5);
  std::set<uint64_t> hashes;
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(all.sample(i).self_drawn);
    EXPECT_TRUE(hashes.insert(all.prompt_hash(i)).second);
    EXPECT_TRUE(target().tokenizer->decode(all.sample(i).ids, false).starts_with("["));
  }
}

TEST(CheckDisk, NamesBothNumbers) {
  constexpr uint64_t kMib = 1 << 20;
  check_disk("f", 10 * kMib, 80 * kMib);
  for (const uint64_t available : {uint64_t{0}, 60 * kMib, 70 * kMib})
    EXPECT_THAT(
        error_text([&] { check_disk("folder", 10 * kMib, available); }, ErrorCode::kExhausted),
        HasSubstr("may need 10.0 MiB"));
  error_text([] { check_disk("folder", UINT64_MAX, 100 * kMib); }, ErrorCode::kExhausted);
}

}  // namespace
}  // namespace clover
