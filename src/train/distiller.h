// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_set>
#include <vector>

#include "engine/engine.h"
#include "train/distilled_folder.h"
#include "train/prompt_list.h"
#include "train/task_run.h"

namespace clover {

struct DistillProgress {
  int64_t tasks = 0;            // of all
  int64_t done = 0;             // of them, also by earlier runs; in shards or waiting for theirs
  int64_t started = 0;          // done when this run began
  int64_t response_tokens = 0;  // drawn by this run, those of self-drawn prompts included
  int64_t prompt_tokens = 0;    // read by this run
  double step_ms = 0;           // spent in the engine
  bool stopping = false;        // finishing a shard
};

// Has the target answer all prompts of a list that a folder does not hold yet, as many at once as
// the engine takes: whenever an answer ends, the next prompt begins beside those still running.
// Shards are cut by the prompts' order and written in that order, whatever order answers end in, so
// a run that was broken off and resumed leaves the same shards, byte for byte, as one that was not.
class Distiller {
 public:
  // All must outlive it. `batch` is the engine's max_sequences. Error(kInvalidArgument) when the
  // folder's finished tasks are answers to other prompts than the list's.
  Distiller(Engine& engine, const PromptList& prompts, DistilledFolder& folder, int64_t batch,
            int64_t shard_tasks);
  ~Distiller();
  Distiller(const Distiller&) = delete;
  Distiller& operator=(const Distiller&) = delete;

  // Bytes that the missing shards take at most.
  uint64_t estimated_bytes() const;

  // Runs until every task is in a shard. `watch` is called after every step; when it says false,
  // the oldest unfinished shard is finished, work for later ones dropped, and run() returns false.
  // Throws what the folder throws; finished shards are kept.
  bool run(const std::function<bool(const DistillProgress&)>& watch);

 private:
  struct Shard;
  struct Active;
  void plan(int64_t shard_tasks);
  void check_finished() const;
  bool next_task(size_t& shard, uint32_t& task);
  void fill();
  void submit(std::unique_ptr<Active> active);
  void collect();
  void complete(Active& active, TaskRun::End end);
  void seal();
  void stop();

  Engine& engine_;
  const PromptList& prompts_;
  DistilledFolder& folder_;
  int64_t batch_;
  std::unordered_set<uint64_t> known_;  // hashes of the self-drawn prompts in finished shards
  std::vector<Shard> shards_;           // to be written, in order
  size_t sealed_ = 0;                   // of them, those that are
  size_t next_shard_ = 0;               // where the next task is taken from
  size_t limit_ = 0;                    // shards from here on are left alone
  std::map<int64_t, std::unique_ptr<Active>> active_;  // by request
  std::vector<int64_t> ended_;                         // requests that ended in this step
  DistillProgress progress_;
};

// Error(kExhausted) with both numbers when `needed` bytes, and a reserve, are more than what is
// `available` in `folder`.
void check_disk(const std::string& folder, uint64_t needed, uint64_t available);

}  // namespace clover
