// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "speculation/speculators/prediction.h"
#include "tokenizer/utf8.h"

namespace clover {
namespace {

void check_range(int64_t value, int64_t low, int64_t high, const char* name) {
  if (value < low || value > high)
    fail(ErrorCode::kInvalidArgument, "{} must be {} to {}, not {}", name, low, high, value);
}

void check_ids(std::span<const TokenId> ids, int32_t vocab, const char* what) {
  for (const TokenId id : ids)
    if (id < 0 || id >= vocab)
      fail(ErrorCode::kInvalidArgument, "{} token id {} is outside the vocabulary of {}", what, id,
           vocab);
}

void check_constraint(const Request& request, int32_t vocab) {
  const TokenWords& words = request.constraint->words();
  if (words.vocab() != vocab)
    fail(ErrorCode::kInvalidArgument, "the constraint is for {} tokens, the model has {}",
         words.vocab(), vocab);
  if (words.ends().empty())
    fail(ErrorCode::kInvalidArgument,
         "this model has no end-of-text token, with which a constrained answer ends");
  if (request.ignore_eos)
    fail(ErrorCode::kInvalidArgument, "ignore_eos and a constraint exclude each other");
  if (request.sampling.min_tokens > 0)
    fail(ErrorCode::kInvalidArgument, "min_tokens and a constraint exclude each other");
}

// A pass of `rows` rows behind nothing: a root and its children, as a tree of drafts would be.
Batch star(std::span<const int32_t> blocks, int64_t rows) {
  Batch batch;
  batch.tokens.assign(static_cast<size_t>(rows), 0);
  batch.parents.assign(static_cast<size_t>(rows), 0);
  batch.parents.front() = -1;
  batch.wants_logits.assign(static_cast<size_t>(rows), 1);
  batch.sequences.push_back({blocks, 0, 0, rows});
  return batch;
}

}  // namespace

Engine::Engine(std::shared_ptr<const Model> model, const Tokenizer& tokenizer,
               const EngineOptions& options)
    : model_(std::move(model)),
      tokenizer_(tokenizer),
      options_(options),
      chunk_(options.prefill_rows, options.stall_ms) {
  const int64_t trained = model_->config().context;
  context_ = options.context == 0 ? trained : options.context;
  check_range(context_, 2, trained, "context");
  check_range(options.max_sequences, 1, 4096, "max_sequences");
  check_range(options.prefill_rows, 1, 65536, "prefill_rows");
  int64_t blocks = kv_blocks_for(context_) * options.max_sequences;
  if (options.kv_tokens != 0) {
    check_range(options.kv_tokens, context_, context_ * options.max_sequences, "kv_tokens");
    blocks = kv_blocks_for(options.kv_tokens);
  }
  kv_ = model_->backend().make_kv_store(model_->kv_shape(blocks, options.kv_type));
  pool_ = std::make_unique<KvBlockPool>(blocks, kKvBlockTokens);
  if (options.prefix_cache) prefixes_ = std::make_unique<PrefixIndex>(*pool_);
  if (!options.speculators.empty() || options.predictions) make_drafter();
}

Engine::~Engine() = default;

void Engine::make_drafter() {
  const SpeculatorHost host{model_, pool_->total_blocks(), options_.kv_type};
  std::vector<std::unique_ptr<Speculator>> speculators;
  for (const SpeculatorFactory& factory : options_.speculators)
    speculators.push_back(factory(host));
  if (options_.predictions) speculators.push_back(std::make_unique<PredictionSpeculator>());
  // The pool is empty still: a pass may use any of its blocks.
  std::vector<int32_t> blocks(static_cast<size_t>(pool_->total_blocks()));
  std::iota(blocks.begin(), blocks.end(), 0);
  const int64_t slots = std::ssize(blocks) * kKvBlockTokens;
  const auto pass = [&](int64_t rows) {
    const Batch batch = star(blocks, std::min(rows, slots));
    const auto begin = Clock::now();
    model_->forward(batch, *kv_);
    return ms_since(begin);
  };
  drafter_ =
      std::make_unique<Drafter>(std::move(speculators), options_.tree, CostCurve::measure(pass));
}

void Engine::check(const Request& request) const {
  const auto vocab = static_cast<int32_t>(model_->config().vocab);
  if (request.prompt.empty()) fail(ErrorCode::kInvalidArgument, "the prompt is empty");
  const auto length = static_cast<int64_t>(request.prompt.size());
  if (length > context_)
    fail(ErrorCode::kInvalidArgument,
         "the prompt has {} tokens but the context holds {}; shorten it or raise the context",
         length, context_);
  check_ids(request.prompt, vocab, "prompt");
  for (const std::string& stop : request.stop) {
    if (stop.empty()) fail(ErrorCode::kInvalidArgument, "a stop string is empty");
    if (utf8_valid_prefix(stop) != stop.size())
      fail(ErrorCode::kInvalidArgument, "a stop string is not valid UTF-8");
  }
  if (request.constraint) check_constraint(request, vocab);
  check_prediction(request);
  if (request.max_tokens < -1) fail(ErrorCode::kInvalidArgument, "max_tokens must not be negative");
  validate(request.sampling, vocab);
}

void Engine::check_prediction(const Request& request) const {
  if (request.prediction.empty()) return;
  if (!options_.predictions) fail(ErrorCode::kInvalidArgument, "predictions are not taken here");
  if (std::ssize(request.prediction) > context_)
    fail(ErrorCode::kInvalidArgument, "the prediction has {} tokens but the context holds {}",
         request.prediction.size(), context_);
  check_ids(request.prediction, static_cast<int32_t>(model_->config().vocab), "prediction");
}

int64_t Engine::submit(Request request) {
  check(request);
  const auto vocab = static_cast<int32_t>(model_->config().vocab);
  const int64_t id = next_id_++;
  waiting_.push_back(
      std::make_unique<Sequence>(id, std::move(request), tokenizer_, context_, vocab));
  return id;
}

void Engine::cancel(int64_t id) {
  for (auto* list : {&waiting_, &running_})
    for (auto& sequence : *list)
      if (sequence->id() == id) sequence->finish(FinishReason::kCancelled);
}

void Engine::end_all(FinishReason reason, const std::string& error) {
  for (auto* list : {&waiting_, &running_})
    for (auto& sequence : *list) sequence->finish(reason, error);
}

bool Engine::step() {
  retire();
  admit();
  retire();
  if (running_.empty()) return false;
  const auto begin = Clock::now();
  StepRows step = plan_step();
  if (!step.parts.empty()) {
    // Blocks are looked up once no reservation can move them any more.
    for (const StepRows::Part& part : step.parts)
      step.batch.sequences.push_back(
          {pool_->blocks(part.sequence->id()), part.committed, part.first_row, part.rows});
    const auto pass = Clock::now();
    const ForwardResult result = model_->forward(step.batch, *kv_);
    const double pass_ms = ms_since(pass);
    finish_step(step, result, pass_ms);
    if (drafter_) observe(step, result);
    if (prefixes_) publish(step);
    const double step_ms = ms_since(begin);
    if (drafter_ && step.prompt_rows == 0)
      drafter_->timed(step.batch.rows(), pass_ms, step_ms - pass_ms);
    if (step.prompt_rows > 0) chunk_.timed(step.prompt_rows, step.batch.rows(), step_ms);
  }
  retire();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  return !running_.empty() || !waiting_.empty();
}

void Engine::finish_step(StepRows& step, const ForwardResult& result, double pass_ms) {
  ++stats_.steps;
  stats_.rows += step.batch.rows();
  stats_.prompt_rows += step.prompt_rows;
  stats_.verify_ms += pass_ms;
  for (StepRows::Part& part : step.parts) {
    Sequence& sequence = *part.sequence;
    (part.prompt ? sequence.stats().prefill_ms : sequence.stats().verify_ms) += pass_ms;
    const auto begin = Clock::now();
    verify(part, result);
    const double sample_ms = ms_since(begin);
    sequence.stats().sample_ms += sample_ms;
    stats_.sample_ms += sample_ms;
  }
}

// A chunk's keys and values are there; log-probabilities are taken if they were asked for.
void Engine::read_prompt(const StepRows::Part& part, const ForwardResult& result) {
  Sequence& sequence = *part.sequence;
  pool_->commit_prefix(sequence.id(), part.rows);
  sequence.mark_read(part.rows);
  if (!sequence.scoring() || sequence.finished()) return;
  const auto vocab = static_cast<size_t>(model_->config().vocab);
  try {
    for (int64_t i = 0; i < part.rows; ++i) {
      if (!sequence.wants_score(part.committed + i)) continue;
      const auto row = static_cast<size_t>(part.first_row + i);
      sequence.score_next({result.logits.row(result.logits_row[row]), vocab});
    }
    if (part.draws) return;                                // they go with the first token
    if (!sequence.scoring() && sequence.remaining() == 0)  // the last token's row gives nothing
      sequence.finish(FinishReason::kLength);
    else
      sequence.send_scores();
  } catch (const Error& error) {
    sequence.finish(FinishReason::kError, error.what());
  }
}

// Draws down the part's tree and commits what was accepted.
void Engine::verify(StepRows::Part& part, const ForwardResult& result) {
  Sequence& sequence = *part.sequence;
  if (part.prompt) read_prompt(part, result);
  if (!part.draws || sequence.finished()) return;
  const auto vocab = static_cast<size_t>(model_->config().vocab);
  const int64_t root_row = part.first_row + part.rows - part.tree.size();
  const auto draw = [&](int32_t node, std::span<const int32_t> pending) {
    const float* logits =
        result.logits.row(result.logits_row[static_cast<size_t>(root_row + node)]);
    return sequence.draw({logits, vocab}, part.tree.depths[static_cast<size_t>(node)], pending);
  };
  int64_t drawn = 0;
  const auto stop = [&](int32_t token) { return sequence.ends(token, ++drawn); };
  try {
    part.walked = walk(part.tree, draw, stop);
    if (!part.prompt) commit(part);
    stats_.tokens += std::ssize(part.walked.draws);
    sequence.accept(part.walked, part.tree);
  } catch (const Error& error) {
    sequence.finish(FinishReason::kError, error.what());
  }
}

// Keeps the keys and values of the accepted path and gives back the rest.
void Engine::commit(const StepRows::Part& part) {
  std::vector<int64_t> slots;
  for (const int32_t node : part.walked.path) slots.push_back(part.committed + node);
  std::vector<KvStore::Move> moves;
  for (const KvMove& move : pool_->commit(part.sequence->id(), slots))
    moves.push_back({move.from, move.to});
  if (!moves.empty()) kv_->move(moves);
  stats_.drafted += part.tree.size() - 1;
  const size_t accepted = part.walked.path.size() - 1;
  stats_.accepted += static_cast<int64_t>(accepted);
  stats_.draft_trees += part.tree.size() > 1 ? 1 : 0;
  if (stats_.accepted_at_depth.size() < accepted) stats_.accepted_at_depth.resize(accepted);
  for (size_t d = 0; d < accepted; ++d) ++stats_.accepted_at_depth[d];
}

// Tells the speculators what the pass saw and what became of their drafts.
void Engine::observe(const StepRows& step, const ForwardResult& result) {
  const auto begin = Clock::now();
  std::vector<DraftOutcome> outcomes;
  std::vector<std::vector<int32_t>> numbers;  // keeps what the views below show
  std::vector<ObservedSequence> sequences;
  numbers.reserve(2 * step.parts.size());
  std::vector<Sequence*> drawing;
  for (const StepRows::Part& part : step.parts) {
    const Sequence& sequence = *part.sequence;
    std::vector<int32_t> drawn;
    for (const Draw& draw : part.walked.draws) drawn.push_back(draw.id);
    if (!part.prompt) {
      numbers.push_back(std::move(drawn));
      outcomes.push_back({part.walked.path, numbers.back()});
      drawing.push_back(part.sequence);
    }
    if (sequence.finished()) continue;
    std::vector<int32_t> rows;
    const int64_t kept = part.prompt ? part.rows : std::ssize(part.walked.path);
    for (int64_t i = 0; i < kept; ++i)
      rows.push_back(static_cast<int32_t>(
          part.first_row + (part.prompt ? i : part.walked.path[static_cast<size_t>(i)])));
    numbers.push_back(std::move(rows));
    sequences.push_back({sequence.id(), sequence.tokens(), pool_->blocks(sequence.id()),
                         part.committed, numbers.back()});
  }
  if (!drawing.empty()) drafter_->learn(outcomes);
  std::vector<std::vector<TopEntry>> top;
  std::vector<int32_t> top_rows;
  const int top_k = drafter_->needs().top_k;
  if (top_k > 0 && result.logits.rows() > 0) {
    top = model_->backend().top_k(result.logits, top_k);
    for (int32_t row = 0; row < step.batch.rows(); ++row)
      if (result.logits_row[static_cast<size_t>(row)] >= 0) top_rows.push_back(row);
  }
  drafter_->observe(
      {result.hidden, step.batch.tokens, step.batch.parents, top_rows, top, sequences});
  add_draft_time(drawing, ms_since(begin));
}

void Engine::add_draft_time(std::span<Sequence* const> drawing, double ms) {
  stats_.draft_ms += ms;
  for (Sequence* sequence : drawing) sequence->stats().draft_ms += ms;
}

void Engine::retire() {
  for (auto* list : {&running_, &waiting_}) {
    auto keep = std::stable_partition(list->begin(), list->end(),
                                      [](const auto& s) { return !s->finished(); });
    for (auto it = keep; it != list->end(); ++it) {
      (*it)->stats().settle();
      finished_[(*it)->id()] = (*it)->stats();
      if ((*it)->failure() && !failure_) failure_ = (*it)->failure();
      if (pool_->contains((*it)->id())) pool_->release((*it)->id());
      if (drafter_ && (*it)->started()) drafter_->end((*it)->id());
      published_.erase((*it)->id());
    }
    list->erase(keep, list->end());
  }
}

void Engine::run() {
  while (step()) {
  }
}

const RequestStats* Engine::stats(int64_t id) const {
  const auto it = finished_.find(id);
  if (it != finished_.end()) return &it->second;
  for (const auto* list : {&running_, &waiting_})
    for (const auto& sequence : *list)
      if (sequence->id() == id) return &sequence->stats();
  return nullptr;
}

void Engine::forget(int64_t id) { finished_.erase(id); }

EngineStats Engine::engine_stats() const {
  EngineStats stats = stats_;
  stats.running = static_cast<int64_t>(running_.size());
  stats.waiting = static_cast<int64_t>(waiting_.size());
  stats.kv_blocks = pool_->total_blocks();
  stats.kv_blocks_free = pool_->free_blocks();
  stats.kv_blocks_cached = pool_->idle_blocks();
  stats.kv_bytes = kv_->bytes();
  return stats;
}

}  // namespace clover
