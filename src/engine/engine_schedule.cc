// SPDX-License-Identifier: Apache-2.0
// Who runs: admission by KV memory, prompts in chunks beside the answers, preemption when memory is
// short. Requests come and go in the order of their arrival: running_ is always sorted by id, and
// so is waiting_, behind it.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "engine/engine.h"

namespace clover {
namespace {

// Rows of a step that give log-probabilities of prompts, at most: each is a row of logits over the
// whole vocabulary.
constexpr int64_t kMostScored = 64;

}  // namespace

// Drafts of the sequence's next step, at most.
int64_t Engine::most_drafts(const Sequence& sequence) const {
  if (!drafter_ || sequence.remaining() < 2) return 0;
  if (options_.speculators.empty() && sequence.request().prediction.empty()) return 0;
  int64_t drafts = std::min(drafter_->max_nodes(), context_ - std::ssize(sequence.tokens()));
  if (sequence.request().max_drafts >= 0) drafts = std::min(drafts, sequence.request().max_drafts);
  return std::max<int64_t>(drafts, 0);
}

// Blocks that the sequence has or will ask for within its next drawing step.
int64_t Engine::blocks_promised(const Sequence& sequence) const {
  return kv_blocks_for(std::ssize(sequence.tokens()) + 1 + most_drafts(sequence));
}

void Engine::admit() {
  if (waiting_.empty()) return;
  int64_t promised = 0;
  for (const auto& sequence : running_) promised += blocks_promised(*sequence);
  auto next = waiting_.begin();
  while (next != waiting_.end() && static_cast<int64_t>(running_.size()) < options_.max_sequences) {
    Sequence& sequence = **next;
    if (sequence.remaining() == 0 && !sequence.scoring()) sequence.finish(FinishReason::kLength);
    if (sequence.finished()) {  // takes no one's place
      ++next;
      continue;
    }
    promised += blocks_promised(sequence);
    // One alone always fits; nobody overtakes who has to wait for memory.
    if (!running_.empty() && promised > pool_->total_blocks()) return;
    if (!sequence.started()) {
      sequence.start();
      if (drafter_) drafter_->begin(sequence.id());
    }
    running_.push_back(std::move(*next));
    next = waiting_.erase(next);
  }
}

// Whether an earlier sequence is reading much of what this one has to read, so that waiting for it
// costs less than reading it twice.
bool Engine::shares_with_reader(size_t index) const {
  const std::vector<TokenId>& mine = running_[index]->tokens();
  for (size_t i = 0; i < index; ++i) {
    if (running_[i]->unread() == 0) continue;
    const std::vector<TokenId>& other = running_[i]->tokens();
    const auto same = std::mismatch(mine.begin(), mine.end(), other.begin(), other.end());
    const auto shared = std::distance(mine.begin(), same.first);
    if (shared >= kKvBlockTokens && 2 * shared >= std::ssize(mine)) return true;
  }
  return false;
}

// Starts the sequence's block table on what the prefix cache has of it. The last token is always
// read: the next one is drawn from its row.
void Engine::open_tables(Sequence& sequence) {
  std::vector<int32_t> blocks;
  const std::span<const TokenId> tokens = sequence.tokens();
  if (prefixes_) blocks = prefixes_->find(tokens.first(static_cast<size_t>(sequence.adoptable())));
  if (drafter_ && !blocks.empty())
    blocks.resize(static_cast<size_t>(drafter_->known_prefix(tokens, blocks) / kKvBlockTokens));
  if (blocks.empty()) {
    pool_->create(sequence.id());
    return;
  }
  pool_->adopt(sequence.id(), blocks);
  const int64_t cached = std::ssize(blocks) * kKvBlockTokens;
  sequence.mark_read(cached);
  if (sequence.stats().preemptions > 0) return;  // its own work, not a gain
  sequence.stats().cached_tokens = cached;
  stats_.cached_tokens += cached;
}

bool Engine::reserve(int64_t sequence, int64_t slots) {
  if (pool_->reserve(sequence, slots)) return true;
  if (!prefixes_) return false;
  const int64_t end = pool_->committed(sequence) + pool_->reserved(sequence) + slots;
  const int64_t more = kv_blocks_for(end) - std::ssize(pool_->blocks(sequence));
  return prefixes_->make_room(more) && pool_->reserve(sequence, slots);
}

// The latest arrival gives back its KV memory and waits, first in line, to read its tokens again.
void Engine::preempt_last() {
  std::unique_ptr<Sequence> sequence = std::move(running_.back());
  running_.pop_back();
  if (pool_->contains(sequence->id())) pool_->release(sequence->id());
  published_.erase(sequence->id());
  sequence->restart();
  ++stats_.preemptions;
  waiting_.insert(waiting_.begin(), std::move(sequence));
}

// Slots for the running sequence at `index`, taken from later arrivals if need be. False when it
// was itself the latest and had to go.
bool Engine::reserve_or_preempt(size_t index, int64_t slots) {
  while (!reserve(running_[index]->id(), slots)) {
    if (running_.size() == 1) {
      running_[index]->finish(FinishReason::kError, "out of KV memory");
      return false;
    }
    const bool self = index + 1 == running_.size();
    preempt_last();
    if (self) return false;
  }
  return true;
}

void Engine::plan_prompt(StepRows& step, size_t index, int64_t& budget) {
  Sequence& sequence = *running_[index];
  if (budget == 0) return;
  if (!pool_->contains(sequence.id())) {
    if (prefixes_ && !sequence.scoring() && shares_with_reader(index)) return;
    open_tables(sequence);
  }
  int64_t rows = std::min(sequence.unread(), budget);
  if (sequence.scoring()) rows = std::min(rows, kMostScored - step.scored_rows);
  if (rows == 0) return;
  if (!reserve_or_preempt(index, rows)) return;
  budget -= rows;
  step.add_prompt(sequence, pool_->committed(sequence.id()), rows);
}

// More slots for a sequence that has one for its root. Returns the drafts that have room.
int64_t Engine::reserve_drafts(const Sequence& sequence) {
  const int64_t drafts = most_drafts(sequence);
  return drafts > 0 && reserve(sequence.id(), drafts) ? drafts : 0;
}

// Prompt chunks and, behind them, the trees of the sequences that draw.
StepRows Engine::plan_step() {
  StepRows step;
  int64_t answering = 0;
  for (const auto& sequence : running_) answering += sequence->reading() ? 0 : 1;
  int64_t budget = chunk_.rows(answering);
  std::vector<Sequence*> drawing;
  // From the earliest on: who is planned is never preempted for one that comes later.
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence* sequence = running_[i].get();
    if (sequence->reading())
      plan_prompt(step, i, budget);
    else if (reserve_or_preempt(i, 1))
      drawing.push_back(sequence);
  }
  if (!drawing.empty()) plan_trees(step, drawing);
  return step;
}

void Engine::plan_trees(StepRows& step, std::span<Sequence* const> drawing) {
  std::vector<DraftRequest> requests;
  std::vector<TokenTree> trees;
  if (drafter_) {
    for (Sequence* sequence : drawing) {
      DraftRequest request;
      request.max_nodes = reserve_drafts(*sequence);
      request.max_depth = sequence->remaining() - 1;
      request.sequence = {sequence->id(),
                          sequence->tokens(),
                          {},
                          request.max_nodes,
                          sequence->request().prediction,
                          sequence->prompt_tokens()};
      if (sequence->request().constraint)
        request.may_follow = [sequence](std::span<const int32_t> drafts, int32_t token) {
          return sequence->may_follow(drafts, token);
        };
      requests.push_back(std::move(request));
    }
    for (DraftRequest& request : requests)
      request.sequence.blocks = pool_->blocks(request.sequence.id);
    const auto begin = Clock::now();
    trees = drafter_->draft(requests, step.prompt_rows);
    add_draft_time(drawing, ms_since(begin));
  }
  for (size_t i = 0; i < drawing.size(); ++i) {
    Sequence& sequence = *drawing[i];
    step.add_tree(sequence, pool_->committed(sequence.id()),
                  drafter_ ? std::move(trees[i]) : TokenTree(sequence.tokens().back()));
  }
}

// Blocks that this step filled can be found by others from now on.
void Engine::publish(const StepRows& step) {
  for (const StepRows::Part& part : step.parts) {
    const Sequence& sequence = *part.sequence;
    if (sequence.finished()) continue;
    PrefixIndex::Known& known = published_[sequence.id()];
    if (pool_->committed(sequence.id()) / kKvBlockTokens > known.blocks)
      known = prefixes_->publish(sequence.id(), sequence.tokens(), known);
  }
}

}  // namespace clover
