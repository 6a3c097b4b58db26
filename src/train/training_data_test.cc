// SPDX-License-Identifier: Apache-2.0
#include "train/training_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "train/batch_source.h"
#include "train/draft_vocab.h"
#include "train/train_fixtures.h"

namespace clover {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

constexpr int64_t kVocab = 50;

// Writes texts of given lengths; the text of length n has n / 2 tokens of answer.
std::string write_texts(const std::string& folder, const std::vector<size_t>& lengths) {
  DistillSettings settings;
  settings.target = "toy";
  settings.fingerprint = train_testing::kFingerprint;
  settings.vocab = kVocab;
  settings.context = 4096;
  DistilledFolder out(folder, settings);
  ShardHeader header;
  header.fingerprint = train_testing::kFingerprint;
  header.vocab = kVocab;
  header.tasks = static_cast<uint32_t>(lengths.size());
  std::vector<DistilledSample> samples;
  for (size_t i = 0; i < lengths.size(); ++i) {
    std::vector<TokenId> prompt(lengths[i] - lengths[i] / 2, 7);
    std::vector<TokenId> answer(lengths[i] / 2, static_cast<TokenId>(10 + i % 5));
    samples.push_back(train_testing::made_up(static_cast<uint32_t>(i), prompt, answer));
    samples.back().prompt_hash = mix64(i);
  }
  out.write(header, samples);
  return folder;
}

class TrainingTexts : public ::testing::Test {
 protected:
  TrainingData open(const std::vector<size_t>& lengths, const TrainingDataOptions& options) {
    const std::string folder = scratch_ / std::to_string(count_++);
    return {std::make_shared<Dataset>(std::vector{write_texts(folder, lengths)}), options};
  }
  std::string fault(const std::vector<size_t>& lengths, const TrainingDataOptions& options) {
    return error_text([&] { open(lengths, options); }, ErrorCode::kInvalidArgument);
  }
  ScratchFolder scratch_;
  int count_ = 0;
};

std::vector<size_t> many() {
  std::vector<size_t> lengths;
  for (size_t i = 0; i < 400; ++i) lengths.push_back(4 + mix64(i) % 60);
  return lengths;
}

TEST_F(TrainingTexts, an_epoch_has_every_text_once_in_batches_of_similar_length) {
  const TrainingData data = open(many(), {.batch_tokens = 200, .held_out_share = 0.1, .seed = 3});
  EXPECT_EQ(data.training().size() + data.held_out().size(), 400u);
  EXPECT_GT(data.held_out().size(), 15u);
  EXPECT_LT(data.held_out().size(), 80u);
  std::vector<uint32_t> seen;
  for (const TextBatch& batch : data.epoch(0)) {
    int64_t tokens = 0;
    int64_t shortest = 1000;
    int64_t longest = 0;
    for (const uint32_t i : batch) {
      const auto length = static_cast<int64_t>(data.sample(i).ids.size());
      tokens += length;
      shortest = std::min(shortest, length);
      longest = std::max(longest, length);
      seen.push_back(i);
    }
    EXPECT_LE(tokens, 200);
    EXPECT_LE(longest - shortest, 30);
  }
  EXPECT_THAT(seen, UnorderedElementsAreArray(data.training()));
}

TEST_F(TrainingTexts, order_is_a_function_of_seed_and_epoch) {
  const TrainingDataOptions options = {.batch_tokens = 200, .seed = 3};
  const TrainingData data = open(many(), options);
  EXPECT_EQ(data.epoch(1), data.epoch(1));
  EXPECT_NE(data.epoch(0), data.epoch(1));
  EXPECT_EQ(open(many(), options).epoch(5), data.epoch(5));
  EXPECT_NE(open(many(), {.batch_tokens = 200, .seed = 4}).epoch(1), data.epoch(1));
}

TEST_F(TrainingTexts, texts_of_a_prompt_are_on_one_side_whatever_else_there_is) {
  const TrainingDataOptions options = {.held_out_share = 0.2};
  const TrainingData few = open(std::vector<size_t>(100, 10), options);
  const TrainingData more = open(std::vector<size_t>(300, 10), options);
  for (const uint32_t i : few.held_out())
    EXPECT_TRUE(std::binary_search(more.held_out().begin(), more.held_out().end(), i));
  for (const uint32_t i : few.training())
    EXPECT_TRUE(std::binary_search(more.training().begin(), more.training().end(), i));
}

TEST_F(TrainingTexts, long_texts_are_cut_and_dropped_when_no_answer_is_left) {
  const TrainingData data = open({10, 100}, {.max_length = 20, .held_out_share = 0});
  EXPECT_THAT(data.training(), ElementsAre(0));  // 50 tokens of prompt
  EXPECT_EQ(data.response_tokens(), 5);
  EXPECT_EQ(data.tokens(), 10);
  const TrainingData cut = open({10, 30}, {.max_length = 20, .held_out_share = 0});
  EXPECT_EQ(cut.sample(1).ids.size(), 20u);
  EXPECT_EQ(cut.response_tokens(), 5 + 5);
}

TEST_F(TrainingTexts, says_when_there_is_nothing_to_train_on) {
  EXPECT_THAT(fault({100, 120}, {.max_length = 20, .held_out_share = 0}),
              HasSubstr("none of the 2 texts has a token of an answer to train on within its first "
                        "20 tokens"));
  EXPECT_THAT(fault({10}, {.max_length = 2}), HasSubstr("at least 3 tokens"));
  EXPECT_THAT(fault({10}, {.held_out_share = 1}), HasSubstr("held-out share"));
}

TEST_F(TrainingTexts, held_out_prompts_end_where_the_answer_begins) {
  const TrainingData data = open(std::vector<size_t>(60, 10), {.held_out_share = 0.3});
  const auto prompts = data.held_out_prompts(4);
  ASSERT_EQ(prompts.size(), 4u);
  for (const auto& prompt : prompts) EXPECT_EQ(prompt, std::vector<TokenId>(5, 7));
  EXPECT_LE(data.held_out_batches(2).size(), 2u);
}

TEST_F(TrainingTexts, the_draft_vocabulary_is_what_answers_have_most) {
  // Answers of 2, 3, 4, 5, 6 tokens 10 … 14; prompts, all 7, do not count.
  const TrainingData data = open({4, 6, 8, 10, 12}, {.held_out_share = 0});
  const DraftVocab vocab = choose_draft_vocab(data, 3);
  EXPECT_THAT(vocab.tokens, ElementsAre(12, 13, 14));
  EXPECT_NEAR(vocab.coverage, 15.0 / 20.0, 1e-12);
  // What never occurs fills up by id.
  EXPECT_THAT(choose_draft_vocab(data, 7).tokens, ElementsAre(0, 1, 10, 11, 12, 13, 14));
  error_text([&] { choose_draft_vocab(data, kVocab + 1); }, ErrorCode::kInvalidArgument);
}

TEST_F(TrainingTexts, the_first_shards_can_be_read_alone) {
  const std::string folder = write_texts(scratch_ / "a", {10, 12});
  EXPECT_THAT(Dataset({folder}).shards(), ElementsAre(1));
  EXPECT_THAT(error_text([&] { Dataset({folder}, {2}); }, ErrorCode::kCorrupt),
              HasSubstr("1 shards where 2 were read before"));
}

struct Target {
  Target() {
    train_testing::write_tiny_model(folder / "model", train_testing::kTemplate);
    const auto checkpoint = open_checkpoint(folder / "model");
    model = Model::load(*checkpoint, make_cpu_backend({.threads = 1, .isa = "auto"}));
  }
  ScratchFolder folder;
  std::shared_ptr<const Model> model;
};

TEST_F(TrainingTexts, features_of_a_batch_are_those_of_each_text_alone) {
  const Target target;
  TargetFeatures features(target.model);
  const std::vector<std::vector<TokenId>> texts = {{3, 4, 5, 6, 7}, {8}, {9, 10, 11}};
  const std::vector<float> all = features.run(texts);
  std::vector<float> apart;
  for (const auto& text : texts) {
    const std::vector<float> one = features.run(std::span(&text, 1));
    apart.insert(apart.end(), one.begin(), one.end());
  }
  EXPECT_EQ(all, apart);
  error_text([&] { features.run(std::vector<std::vector<TokenId>>{{96}}); },
             ErrorCode::kInvalidArgument);
}

TEST_F(TrainingTexts, data_of_another_target_is_refused) {
  const Target target;
  const std::string folder = write_texts(scratch_ / "a", {10});
  EXPECT_THAT(error_text(
                  [&] {
                    BatchSource({{folder}, {}}, target.model, std::string(64, 'a'));
                  },
                  ErrorCode::kInvalidArgument),
              HasSubstr("was written by another target (toy)"));
}

TEST_F(TrainingTexts, a_cached_batch_is_that_of_the_first_time) {
  const Target target;
  const std::string folder = write_texts(scratch_ / "a", {10, 12, 14});
  BatchSourceOptions options{{folder}, {.held_out_share = 0}, {}, scratch_ / "features.bin"};
  TextRows first;
  {
    BatchSource source(options, target.model, train_testing::kFingerprint);
    first = source.load({2, 0});
    EXPECT_THAT(first.lengths, ElementsAre(14, 10));
    EXPECT_EQ(std::count(first.loss.begin(), first.loss.end(), 1), 12);
    EXPECT_EQ(source.load({2, 0}).features, first.features);
  }
  BatchSource again(options, target.model, train_testing::kFingerprint);
  EXPECT_EQ(again.load({2, 0}).features, first.features);
  options.cache.clear();
  const TextRows plain =
      BatchSource(options, target.model, train_testing::kFingerprint).load({2, 0});
  EXPECT_NE(plain.features, first.features);  // 16 bits
  for (size_t i = 0; i < plain.features.size(); ++i)
    EXPECT_NEAR(plain.features[i], first.features[i], 1e-3 * std::abs(plain.features[i]) + 1e-6);
}

}  // namespace
}  // namespace clover
