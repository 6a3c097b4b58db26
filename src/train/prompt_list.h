// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "train/exclusion.h"
#include "train/prompt_file.h"
#include "train/prompt_maker.h"

namespace clover {

// One conversation to be had with the target.
struct DistillTask {
  UserTurns turns;         // empty: the target draws its prompt itself
  uint64_t hash = 0;       // of the prompt; 0 for one that is not drawn yet
  int64_t self_index = 0;  // of a self-drawn prompt, from 0
};

// What became of the prompts.
struct PromptCounts {
  int64_t records = 0;    // read from the files
  int64_t bad = 0;        // records that were skipped
  int64_t empty = 0;      // without a user's turn
  int64_t duplicate = 0;  // the same ids as an earlier one
  int64_t excluded = 0;
  int64_t too_long = 0;  // no room for an answer behind it
  int64_t cut = 0;       // of those kept, conversations cut to one turn (no template)
  int64_t kept = 0;
  int64_t prompt_tokens = 0;  // of the kept ones, first turns
};

struct PromptListOptions {
  bool skip_bad = false;
  int64_t max_prompt_tokens = 0;  // longer prompts are left out
};

// The prompts to be answered, in order: those of files, then self-drawn ones.
class PromptList {
 public:
  // Both must outlive the list.
  PromptList(const PromptMaker& maker, const ExclusionSet& exclusion, PromptListOptions options);

  // Error as read_prompts().
  void add_file(const std::string& path);
  void add_self_drawn(int64_t count);

  std::span<const DistillTask> tasks() const { return tasks_; }
  const PromptCounts& counts() const { return counts_; }
  int64_t self_drawn() const { return self_drawn_; }
  int64_t max_prompt_tokens() const { return options_.max_prompt_tokens; }
  const PromptMaker& maker() const { return maker_; }
  const ExclusionSet& exclusion() const { return exclusion_; }
  bool contains(uint64_t hash) const { return hashes_.contains(hash); }

 private:
  void add(UserTurns turns);

  const PromptMaker& maker_;
  const ExclusionSet& exclusion_;
  PromptListOptions options_;
  std::vector<DistillTask> tasks_;
  std::unordered_set<uint64_t> hashes_;
  PromptCounts counts_;
  int64_t self_drawn_ = 0;
};

// Hash of a prompt: the ids of its first turn with all the template adds, and the texts of further
// turns. Never 0.
uint64_t prompt_hash(std::span<const TokenId> first, std::span<const std::string> turns);

}  // namespace clover
