// SPDX-License-Identifier: Apache-2.0
#include "train/dataset.h"

#include <filesystem>

#include "base/error.h"

namespace clover {
namespace {

constexpr int64_t kAllShards = -1;

}  // namespace

Dataset::Dataset(const std::vector<std::string>& folders, const std::vector<int64_t>& shards) {
  for (size_t i = 0; i < folders.size(); ++i)
    open(folders[i], i < shards.size() ? shards[i] : kAllShards);
  if (index_.empty())
    fail(ErrorCode::kInvalidArgument, "{} holds no sample yet",
         folders.empty() ? "a list of no folders" : folders.front());
}

void Dataset::open(const std::string& folder, int64_t shards) {
  const DistillSettings settings = read_manifest(folder);
  if (files_.empty()) settings_ = settings;
  if (settings.fingerprint != settings_.fingerprint || settings.vocab != settings_.vocab)
    fail(ErrorCode::kInvalidArgument, "{} was made by another target than the folders before it",
         folder);
  std::vector<std::string> names = shard_names(folder);
  if (shards != kAllShards && shards > std::ssize(names))
    fail(ErrorCode::kCorrupt, "{} has {} shards where {} were read before", folder, names.size(),
         shards);
  if (shards != kAllShards) names.resize(static_cast<size_t>(shards));
  shards_of_.push_back(std::ssize(names));
  for (const std::string& name : names) {
    MappedFile file((std::filesystem::path(folder) / name).string());
    ShardView shard(file.bytes(), file.path());
    check_shard_digest(file.bytes(), file.path());
    const ShardHeader& header = shard.header();
    if (header.fingerprint != settings_.fingerprint)
      fail(ErrorCode::kCorrupt, "{}: fingerprint: it was made by another target", file.path());
    if (header.vocab != settings_.vocab)
      fail(ErrorCode::kCorrupt, "{}: vocab: {} where the manifest says {}", file.path(),
           header.vocab, settings_.vocab);
    for (size_t i = 0; i < shard.size(); ++i) index_.push_back({shards_.size(), i});
    entries_.push_back({name, header, file.bytes().size()});
    shards_.push_back(std::move(shard));
    files_.push_back(std::move(file));
  }
}

DistilledSample Dataset::sample(size_t i) const {
  const Place& place = index_.at(i);
  return shards_[place.shard].sample(place.sample);
}

uint32_t Dataset::tokens(size_t i) const {
  const Place& place = index_.at(i);
  return shards_[place.shard].tokens(place.sample);
}

uint32_t Dataset::response_tokens(size_t i) const {
  const Place& place = index_.at(i);
  return shards_[place.shard].response_tokens(place.sample);
}

uint64_t Dataset::prompt_hash(size_t i) const {
  const Place& place = index_.at(i);
  return shards_[place.shard].prompt_hash(place.sample);
}

float Dataset::temperature(size_t i) const {
  const Place& place = index_.at(i);
  return shards_[place.shard].temperature(place.sample);
}

Dataset::Shares Dataset::shares() const {
  Shares shares;
  for (const ShardView& shard : shards_) {
    for (size_t i = 0; i < shard.size(); ++i) {
      shares.greedy_samples += shard.temperature(i) == 0 ? 1 : 0;
      shares.self_drawn_samples += shard.self_drawn(i) ? 1 : 0;
      shares.ended_samples += shard.ended(i) ? 1 : 0;
      shares.several_turns += shard.turns(i) > 1 ? 1 : 0;
    }
  }
  return shares;
}

}  // namespace clover
