// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "train/distilled_folder.h"
#include "train/prompt_list.h"
#include "train/shard.h"

namespace clover {

// An answer of the engine, put together.
struct TaskAnswer {
  std::string text;
  std::vector<TokenId> ids;
  FinishReason finish = FinishReason::kNone;
};

// One task on its way: which request it needs next, and the samples that came of it. What it asks
// for is a function of the settings and the prompt alone, never of other tasks.
class TaskRun {
 public:
  enum class End { kNone, kDone, kDuplicate, kExcluded, kUnusable, kFailed };

  // All must outlive the run. `known` says whether a self-drawn prompt is one that finished tasks
  // have.
  TaskRun(const DistillTask& task, const PromptList& prompts, const DistillSettings& settings,
          std::function<bool(uint64_t hash)> known);

  // The next request, without on_output.
  Request request();
  // Takes the answer to it. kNone: there is another request.
  End take(const TaskAnswer& answer);

  uint64_t hash() const { return hash_; }
  bool self_drawn() const { return task_.turns.empty(); }
  bool drawing_prompt() const { return turns_.empty(); }
  std::vector<DistilledSample>& samples() { return samples_; }

 private:
  Request draw_request() const;
  End take_prompt(const TaskAnswer& answer);
  void add_to_sample(const TaskAnswer& answer);

  const DistillTask& task_;
  const PromptList& prompts_;
  const DistillSettings& settings_;
  std::function<bool(uint64_t)> known_;
  UserTurns turns_;
  std::vector<std::string> answers_;
  std::vector<TokenId> prompt_;  // of the request that is out
  uint64_t hash_ = 0;
  uint64_t key_ = 0;  // of this task's random numbers
  float temperature_ = 0;
  std::vector<DistilledSample> samples_;
};

}  // namespace clover
