// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "engine/sequence.h"
#include "speculation/tree/token_tree.h"
#include "tokenizer/utf8.h"

namespace clover {
namespace {

int64_t blocks_for(int64_t tokens) { return (tokens + kKvBlockTokens - 1) / kKvBlockTokens; }

void check_range(int64_t value, int64_t low, int64_t high, const char* name) {
  if (value < low || value > high)
    fail(ErrorCode::kInvalidArgument, "{} must be {} to {}, not {}", name, low, high, value);
}

}  // namespace

// The batch of one step, and which rows belong to whom.
struct Engine::StepRows {
  struct Part {
    Sequence* sequence;
    int64_t first_row;
    int64_t rows;
    bool reading;    // a chunk of the prompt
    TokenTree tree;  // otherwise
  };
  Batch batch;
  std::vector<Part> parts;
};

Engine::Engine(std::shared_ptr<const Model> model, const Tokenizer& tokenizer,
               const EngineOptions& options)
    : model_(std::move(model)), tokenizer_(tokenizer), options_(options) {
  const int64_t trained = model_->config().context;
  context_ = options.context == 0 ? trained : options.context;
  check_range(context_, 2, trained, "context");
  check_range(options.max_sequences, 1, 4096, "max_sequences");
  check_range(options.prefill_rows, 1, 65536, "prefill_rows");
  const int64_t blocks = blocks_for(context_) * options.max_sequences;
  kv_ = model_->backend().make_kv_store(model_->kv_shape(blocks, options.kv_type));
  pool_ = std::make_unique<KvBlockPool>(blocks, kKvBlockTokens);
}

Engine::~Engine() = default;

int64_t Engine::submit(Request request) {
  const auto vocab = static_cast<int32_t>(model_->config().vocab);
  if (request.prompt.empty()) fail(ErrorCode::kInvalidArgument, "the prompt is empty");
  const auto length = static_cast<int64_t>(request.prompt.size());
  if (length > context_)
    fail(ErrorCode::kInvalidArgument,
         "the prompt has {} tokens but the context holds {}; shorten it or raise the context",
         length, context_);
  for (const TokenId id : request.prompt)
    if (id < 0 || id >= vocab)
      fail(ErrorCode::kInvalidArgument, "prompt token id {} is outside the vocabulary of {}", id,
           vocab);
  for (const std::string& stop : request.stop) {
    if (stop.empty()) fail(ErrorCode::kInvalidArgument, "a stop string is empty");
    if (utf8_valid_prefix(stop) != stop.size())
      fail(ErrorCode::kInvalidArgument, "a stop string is not valid UTF-8");
  }
  if (request.max_tokens < -1) fail(ErrorCode::kInvalidArgument, "max_tokens must not be negative");
  validate(request.sampling, vocab);
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

void Engine::admit() {
  auto next = waiting_.begin();
  while (next != waiting_.end() && static_cast<int64_t>(running_.size()) < options_.max_sequences) {
    Sequence& sequence = **next;
    if (sequence.remaining() == 0) sequence.finish(FinishReason::kLength);
    if (sequence.finished()) {  // takes no one's place
      ++next;
      continue;
    }
    pool_->create(sequence.id());
    running_.push_back(std::move(*next));
    next = waiting_.erase(next);
  }
}

void Engine::add_rows(Sequence& sequence, int64_t rows, StepRows& step) {
  Batch& batch = step.batch;
  const int64_t committed = pool_->committed(sequence.id());
  const int64_t first = batch.rows();
  const bool reading = sequence.unread() > rows;
  for (int64_t i = 0; i < rows; ++i) {
    batch.tokens.push_back(sequence.tokens()[static_cast<size_t>(committed + i)]);
    batch.parents.push_back(static_cast<int32_t>(i == 0 ? -1 : first + i - 1));
    batch.wants_logits.push_back(!reading && i == rows - 1 ? 1 : 0);
  }
  batch.sequences.push_back({pool_->blocks(sequence.id()), committed, first, rows});
  step.parts.push_back({&sequence, first, rows, reading, TokenTree(batch.tokens.back())});
}

bool Engine::step() {
  retire();
  admit();
  retire();
  if (running_.empty()) return false;
  const auto begin = Clock::now();
  StepRows step;
  int64_t budget = options_.prefill_rows;
  for (auto& sequence : running_) {
    const int64_t rows =
        sequence->reading() ? std::min(sequence->unread(), budget) : static_cast<int64_t>(1);
    if (rows == 0) continue;
    if (sequence->reading()) budget -= rows;
    if (!pool_->reserve(sequence->id(), rows)) {
      sequence->finish(FinishReason::kError, "out of KV memory");
      continue;
    }
    add_rows(*sequence, rows, step);
  }
  if (!step.parts.empty()) {
    const ForwardResult result = model_->forward(step.batch, *kv_);
    const double verify_ms = ms_since(begin);
    stats_.verify_ms += verify_ms;
    finish_step(step, result, verify_ms);
    ++stats_.steps;
    stats_.rows += step.batch.rows();
  }
  retire();
  return !running_.empty() || !waiting_.empty();
}

void Engine::finish_step(const StepRows& step, const ForwardResult& result, double verify_ms) {
  const int64_t vocab = model_->config().vocab;
  for (const StepRows::Part& part : step.parts) {
    Sequence& sequence = *part.sequence;
    RequestStats& stats = sequence.stats();
    const bool was_reading = sequence.reading();
    pool_->commit_prefix(sequence.id(), part.rows);
    if (was_reading) {
      sequence.mark_read(part.rows);
      stats_.prompt_rows += part.rows;
    }
    (was_reading ? stats.prefill_ms : stats.verify_ms) += verify_ms;
    if (part.reading || sequence.finished()) continue;
    const auto begin = Clock::now();
    const auto draw = [&](int32_t node, std::span<const int32_t> pending) {
      const auto row = static_cast<size_t>(part.first_row + part.rows - 1 + node);
      const float* logits = result.logits.row(result.logits_row[row]);
      return sequence.draw({logits, static_cast<size_t>(vocab)},
                           part.tree.depths[static_cast<size_t>(node)], pending);
    };
    int64_t drawn = 0;
    const auto stop = [&](int32_t token) { return sequence.ends(token, ++drawn); };
    try {
      const WalkResult walked = walk(part.tree, draw, stop);
      ++stats.target_steps;
      stats_.tokens += static_cast<int64_t>(walked.draws.size());
      sequence.accept(walked);
    } catch (const Error& error) {
      sequence.finish(FinishReason::kError, error.what());
    }
    const double sample_ms = ms_since(begin);
    stats.sample_ms += sample_ms;
    stats_.sample_ms += sample_ms;
  }
}

void Engine::retire() {
  for (auto* list : {&running_, &waiting_}) {
    auto keep = std::stable_partition(list->begin(), list->end(),
                                      [](const auto& s) { return !s->finished(); });
    for (auto it = keep; it != list->end(); ++it) {
      RequestStats stats = (*it)->stats();
      stats.other_ms = std::max(0.0, stats.total_ms - stats.prefill_ms - stats.draft_ms -
                                         stats.verify_ms - stats.sample_ms);
      finished_[(*it)->id()] = std::move(stats);
      if (pool_->contains((*it)->id())) pool_->release((*it)->id());
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
  stats.kv_bytes = kv_->bytes();
  return stats;
}

}  // namespace clover
