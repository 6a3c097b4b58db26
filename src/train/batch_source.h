// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/feature_cache.h"
#include "train/target_features.h"
#include "train/training_data.h"

namespace clover {

struct BatchSourceOptions {
  std::vector<std::string> folders;  // of distilled data
  TrainingDataOptions batches;
  std::vector<int64_t> shards = {};  // of every folder, as Dataset; empty: all that are finished
  std::string cache = {};            // file for features; empty: they are made anew every time
};

// The texts of a batch with the target's features, one behind the other, N tokens in all.
struct TextRows {
  std::vector<int64_t> lengths;
  std::vector<int32_t> tokens;  // [N]
  std::vector<uint8_t> loss;    // [N] 1: a token of an answer
  std::vector<float> features;  // [N][D]
};

// Turns batches of texts into what a speculator is trained on.
class BatchSource {
 public:
  // `fingerprint` is that of the target. Errors: those of Dataset, TrainingData and FeatureCache;
  // kInvalidArgument when the data is another target's, kExhausted when the disk has too little
  // room for the features of all texts.
  BatchSource(BatchSourceOptions options, std::shared_ptr<const Model> target,
              const std::string& fingerprint);

  const TrainingData& data() const { return *data_; }
  // Shards of every folder that are in use.
  std::vector<int64_t> shards() const { return dataset_->shards(); }
  // Takes in the shards that were finished since, or those of every folder that are named.
  void reopen(const std::vector<int64_t>& shards = {});
  // A line for people: how much there is, and what the features will take.
  std::string describe() const;

  TextRows load(const TextBatch& texts);
  // Only what a batch asks for, without the target's features.
  TextRows labels(const TextBatch& texts) const;
  // Spent in load().
  double feature_seconds() const { return feature_seconds_; }

 private:
  void open(const std::vector<int64_t>& shards);
  uint64_t cache_bytes() const;
  void check_space() const;

  BatchSourceOptions options_;
  TargetFeatures features_;
  std::string fingerprint_;
  std::shared_ptr<const Dataset> dataset_;
  std::optional<TrainingData> data_;
  std::optional<FeatureCache> cache_;
  double feature_seconds_ = 0;
};

}  // namespace clover
