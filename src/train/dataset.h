// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "train/distilled_folder.h"
#include "train/shard.h"

namespace clover {

// The samples of one folder of distilled data, or of several that one target made, for reading.
// The shards that are finished when it is opened are what it holds, also while `clover distill`
// goes on. Immutable; all methods are thread-safe.
class Dataset {
 public:
  // Checks every shard in full. Errors: kNotFound without a manifest, those of read_manifest() and
  // ShardView, kCorrupt for a wrong checksum, kInvalidArgument when the folders are of different
  // targets or hold no sample at all.
  // `shards` says how many of the first shards of every folder are read, of the first folders where
  // there are fewer numbers; empty: all. kCorrupt when a folder has fewer.
  explicit Dataset(const std::vector<std::string>& folders,
                   const std::vector<int64_t>& shards = {});

  // Of the first folder; the target's fingerprint and vocabulary are the same in all.
  const DistillSettings& settings() const { return settings_; }
  // Shards that are read, of every folder.
  const std::vector<int64_t>& shards() const { return shards_of_; }
  DistilledCounts counts() const { return count_shards(entries_); }
  size_t size() const { return index_.size(); }
  DistilledSample sample(size_t i) const;
  // Without reading the ids.
  uint32_t tokens(size_t i) const;
  uint32_t response_tokens(size_t i) const;
  uint64_t prompt_hash(size_t i) const;
  float temperature(size_t i) const;

  // Samples drawn greedily and their response tokens, for reports.
  struct Shares {
    int64_t greedy_samples = 0;
    int64_t self_drawn_samples = 0;
    int64_t ended_samples = 0;  // whose last answer ended by itself
    int64_t several_turns = 0;
  };
  Shares shares() const;

 private:
  void open(const std::string& folder, int64_t shards);
  struct Place {
    size_t shard;
    size_t sample;
  };
  DistillSettings settings_;
  std::vector<MappedFile> files_;
  std::vector<ShardView> shards_;
  std::vector<ShardEntry> entries_;
  std::vector<Place> index_;
  std::vector<int64_t> shards_of_;
};

}  // namespace clover
