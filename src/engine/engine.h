// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "engine/sequence.h"
#include "engine/step_rows.h"
#include "kv/block_pool.h"
#include "model/model.h"
#include "speculation/planner/drafter.h"
#include "tokenizer/tokenizer.h"

namespace clover {

struct EngineOptions {
  int64_t context = 0;         // tokens of one sequence, prompt and answer; 0: the model's own
  int64_t max_sequences = 1;   // sequences that run at once
  int64_t prefill_rows = 256;  // prompt rows of one pass, at most
  DType kv_type = DType::kF16;
  std::vector<SpeculatorFactory> speculators = {};  // share one tree; none: plain decoding
  TreePolicy tree = {};
};

struct EngineStats {
  int64_t steps = 0;
  int64_t rows = 0;
  int64_t prompt_rows = 0;  // of them, rows that read a prompt
  int64_t tokens = 0;       // drawn
  int64_t drafted = 0;      // drafts that passes checked
  int64_t accepted = 0;     // of them, those that became text
  double draft_ms = 0;      // speculators: proposing, choosing, learning
  double verify_ms = 0;     // passes of the target
  double sample_ms = 0;
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t kv_blocks = 0;
  int64_t kv_blocks_free = 0;
  int64_t kv_bytes = 0;
};

// Runs requests on one model: admits them while there is room, reads prompts in chunks beside the
// running sequences, and gives every running sequence one pass per step. One owner thread calls it;
// nothing here locks. The text of a request depends on the request alone, not on its company.
class Engine {
 public:
  // The tokenizer must outlive the engine. Error(kExhausted) when the KV memory cannot be had,
  // Error(kInvalidArgument) for options out of range, naming them.
  Engine(std::shared_ptr<const Model> model, const Tokenizer& tokenizer,
         const EngineOptions& options);
  ~Engine();

  int64_t context() const { return context_; }
  const Model& model() const { return *model_; }

  // Checks the request (Error(kInvalidArgument), naming the field) and queues it; returns its id.
  int64_t submit(Request request);
  // Ends a request within the current step: its output gets finish = kCancelled. Unknown ids
  // (already finished) are ignored.
  void cancel(int64_t id);
  // One pass over everything that is due. False when there was nothing to do. Throws what an
  // on_output threw, after the step; the engine can go on.
  bool step();
  // Steps until every request has finished.
  void run();
  // Statistics of a request; kept after its end until taken with forget(). Null when unknown.
  const RequestStats* stats(int64_t id) const;
  void forget(int64_t id);
  EngineStats engine_stats() const;
  // Null when nothing drafts.
  const Drafter* drafter() const { return drafter_.get(); }

 private:
  void admit();
  void make_drafter();
  StepRows plan_step();
  int64_t reserve_drafts(const Sequence& sequence);
  void finish_step(StepRows& step, const ForwardResult& result, double pass_ms);
  void verify(StepRows::Part& part, const ForwardResult& result);
  void commit(const StepRows::Part& part);
  void observe(const StepRows& step, const ForwardResult& result);
  void add_draft_time(std::span<Sequence* const> drawing, double ms);
  void retire();

  std::shared_ptr<const Model> model_;
  const Tokenizer& tokenizer_;
  EngineOptions options_;
  int64_t context_ = 0;
  std::unique_ptr<KvStore> kv_;
  std::unique_ptr<KvBlockPool> pool_;
  std::vector<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;
  std::map<int64_t, RequestStats> finished_;
  std::unique_ptr<Drafter> drafter_;  // null: plain decoding
  std::exception_ptr failure_;        // of an on_output, to be thrown when the step is done
  int64_t next_id_ = 1;
  EngineStats stats_;
};

}  // namespace clover
