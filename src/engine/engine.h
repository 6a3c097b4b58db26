// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/chunk_budget.h"
#include "engine/request.h"
#include "engine/sequence.h"
#include "engine/step_rows.h"
#include "kv/block_pool.h"
#include "kv/prefix_index.h"
#include "model/model.h"
#include "speculation/planner/drafter.h"
#include "tokenizer/tokenizer.h"

namespace clover {

struct EngineOptions {
  int64_t context = 0;         // tokens of one sequence, prompt and answer; 0: the model's own
  int64_t max_sequences = 1;   // sequences that run at once
  int64_t prefill_rows = 256;  // prompt rows of one pass, at most
  // Tokens of KV memory for all sequences together, at least the context; 0: enough for
  // max_sequences full contexts. With less, late requests wait or give their memory back for a
  // while, and compute again what it held.
  int64_t kv_tokens = 0;
  // Prompt rows of a pass are cut so that sequences that are being answered wait about this long.
  double stall_ms = 100;
  bool prefix_cache = false;  // keep keys and values for later requests that begin alike
  DType kv_type = DType::kF16;
  std::vector<SpeculatorFactory> speculators = {};  // share one tree; none: plain decoding
  bool predictions = false;  // requests may bring predictions of their answers
  TreePolicy tree = {};
};

struct EngineStats {
  int64_t steps = 0;
  int64_t rows = 0;
  int64_t prompt_rows = 0;    // of them, rows that read a prompt
  int64_t cached_tokens = 0;  // prompt tokens found in the prefix cache
  int64_t preemptions = 0;
  int64_t tokens = 0;                      // drawn
  int64_t drafted = 0;                     // drafts that passes checked
  int64_t accepted = 0;                    // of them, those that became text
  int64_t draft_trees = 0;                 // trees that had drafts
  std::vector<int64_t> accepted_at_depth;  // trees that had a right draft there (0: the first)
  double draft_ms = 0;                     // speculators: proposing, choosing, learning
  double verify_ms = 0;                    // passes of the target
  double sample_ms = 0;
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t kv_blocks = 0;
  int64_t kv_blocks_free = 0;
  int64_t kv_blocks_cached = 0;  // not free, but only kept for later requests
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
  const EngineOptions& options() const { return options_; }
  const Model& model() const { return *model_; }

  // Error(kInvalidArgument), naming the field, for a request that submit() would refuse. May be
  // called from any thread.
  void check(const Request& request) const;
  // Checks the request and queues it; returns its id.
  int64_t submit(Request request);
  // Ends a request within the current step: its output gets finish = kCancelled. Unknown ids
  // (already finished) are ignored.
  void cancel(int64_t id);
  // Ends every request for this reason.
  void end_all(FinishReason reason, const std::string& error = {});
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
  void check_prediction(const Request& request) const;
  void admit();
  void make_drafter();
  StepRows plan_step();
  int64_t blocks_promised(const Sequence& sequence) const;
  bool shares_with_reader(size_t index) const;
  void open_tables(Sequence& sequence);
  bool reserve(int64_t sequence, int64_t slots);
  bool reserve_or_preempt(size_t index, int64_t slots);
  void preempt_last();
  void plan_prompt(StepRows& step, size_t index, int64_t& budget);
  void plan_trees(StepRows& step, std::span<Sequence* const> drawing);
  int64_t most_drafts(const Sequence& sequence) const;
  int64_t reserve_drafts(const Sequence& sequence);
  void publish(const StepRows& step);
  void finish_step(StepRows& step, const ForwardResult& result, double pass_ms);
  void read_prompt(const StepRows::Part& part, const ForwardResult& result);
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
  std::unique_ptr<PrefixIndex> prefixes_;  // null: no prefix cache
  std::map<int64_t, PrefixIndex::Known> published_;
  ChunkBudget chunk_;
  std::vector<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;
  std::map<int64_t, RequestStats> finished_;
  std::unique_ptr<Drafter> drafter_;  // null: plain decoding
  std::exception_ptr failure_;        // of an on_output, to be thrown when the step is done
  int64_t next_id_ = 1;
  EngineStats stats_;
};

}  // namespace clover
