// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "train/dataset.h"

namespace clover {

struct TrainingDataOptions {
  int64_t max_length = 1024;     // tokens of a text; longer ones are cut
  int64_t batch_tokens = 4096;   // of a batch; a batch has at least one text
  double held_out_share = 0.01;  // of the prompts, by their hash, kept from training
  uint64_t seed = 0;
};

// A batch is texts, named by their numbers in the dataset.
using TextBatch = std::vector<uint32_t>;

// Distilled texts as training takes them: which are trained on, in which order, in which batches.
// Everything is a function of the dataset and the options.
class TrainingData {
 public:
  // Error(kInvalidArgument) for options out of range, and when no text to train on is left that has
  // a token of an answer within max_length.
  TrainingData(std::shared_ptr<const Dataset> dataset, const TrainingDataOptions& options);

  const Dataset& dataset() const { return *dataset_; }
  const TrainingDataOptions& options() const { return options_; }
  // The texts that are trained on and those held out, in the order of the dataset. All texts of one
  // prompt are on the same side.
  const std::vector<uint32_t>& training() const { return training_; }
  const std::vector<uint32_t>& held_out() const { return held_out_; }
  // A text, cut to max_length.
  DistilledSample sample(uint32_t i) const;
  int64_t tokens() const { return tokens_; }                    // of the training texts
  int64_t response_tokens() const { return response_tokens_; }  // of them, within answers

  // The batches of an epoch: texts in random order, those of one batch of similar length, batches
  // in random order.
  std::vector<TextBatch> epoch(int64_t epoch) const;
  // The first held-out texts with answers, in `count` batches at most.
  std::vector<TextBatch> held_out_batches(int64_t count) const;
  // Prompts of held-out texts up to their first answer, `count` at most: those of the lowest hash.
  std::vector<std::vector<TokenId>> held_out_prompts(int64_t count) const;

 private:
  int64_t length(uint32_t i) const;
  int64_t cut_response(uint32_t i) const;

  std::shared_ptr<const Dataset> dataset_;
  TrainingDataOptions options_;
  std::vector<uint32_t> training_;
  std::vector<uint32_t> held_out_;
  int64_t tokens_ = 0;
  int64_t response_tokens_ = 0;
};

}  // namespace clover
