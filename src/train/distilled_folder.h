// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "train/shard.h"

namespace clover {

// What the content of a folder of distilled data is a function of, besides the prompts.
struct DistillSettings {
  std::string target;       // name of the model
  std::string fingerprint;  // model_fingerprint() of it
  int64_t vocab = 0;
  uint64_t seed = 0;
  int64_t max_tokens = 256;   // of an answer
  double greedy_share = 0.7;  // of the conversations; the others are drawn at `temperature`
  double temperature = 1.0;
  int64_t context = 0;  // tokens of a conversation, at most
};

// A finished shard as the folder's index has it.
struct ShardEntry {
  std::string file;  // name inside the folder
  ShardHeader header;
  uint64_t bytes = 0;
};

// Sums over shards.
struct DistilledCounts {
  int64_t shards = 0;
  int64_t tasks = 0;
  int64_t samples = 0;
  int64_t tokens = 0;
  int64_t response_tokens = 0;
  int64_t bytes = 0;
  DroppedTasks dropped;
};

// The objects of the manifest that say what the data is: {name, fingerprint, vocab_size}, the other
// settings, and the tasks without a sample by reason.
Json target_json(const DistillSettings& settings);
Json settings_json(const DistillSettings& settings);
Json dropped_json(const DroppedTasks& dropped);

inline constexpr const char* kManifestName = "manifest.json";

// Whether the folder has a manifest of distilled data.
bool is_distilled(const std::string& folder);

// The manifest: what a reader needs before it opens a shard. Error(kCorrupt) naming the file and
// the field; kUnsupported for an unknown version.
DistillSettings read_manifest(const std::string& folder);

// Names of the shards in a folder, by first task. Files of other names are not looked at.
std::vector<std::string> shard_names(const std::string& folder);

DistilledCounts count_shards(const std::vector<ShardEntry>& shards);

// A folder that is being written, by one process at a time. Every file appears whole and durable
// or not at all, so a process may be killed at any moment.
class DistilledFolder {
 public:
  // Opens a folder to go on with it, or makes it. Removes what a killed process left half written
  // and reads all finished shards, checksums included. Error(kInvalidArgument) when another process
  // writes there, when the folder holds something else, or was made with other settings (each is
  // named); errors of ShardView.
  DistilledFolder(const std::string& folder, const DistillSettings& settings);

  const std::string& path() const { return path_; }
  const DistillSettings& settings() const { return settings_; }
  // Finished shards by first task.
  const std::map<uint64_t, ShardEntry>& shards() const { return shards_; }
  // Prompt hashes of finished samples: task → (hash, whether it was self-drawn).
  struct Finished {
    uint64_t hash;
    bool self_drawn;
  };
  const std::map<uint64_t, Finished>& finished() const { return finished_; }
  DistilledCounts counts() const;

  // Writes a shard and, after it, the manifest. Error(kExhausted) when the disk is full: the folder
  // is then as it was.
  void write(const ShardHeader& header, std::span<const DistilledSample> samples);
  // What the manifest says of the prompts, for people; written with the next shard.
  void set_prompts(Json prompts) { prompts_ = std::move(prompts); }
  void write_manifest() const;

 private:
  void remove_unfinished() const;
  void check_settings() const;
  void load(const std::string& name);

  std::string path_;
  DistillSettings settings_;
  Json prompts_ = Json::object();
  std::map<uint64_t, ShardEntry> shards_;
  std::map<uint64_t, Finished> finished_;
  std::optional<FolderLock> lock_;
};

}  // namespace clover
