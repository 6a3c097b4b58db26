// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/draft_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "speculation/speculators/probability_bin.h"

namespace clover {
namespace {

constexpr int32_t kNeverRun = -2;

uint64_t step_hash(uint64_t hash, int32_t token) {
  return mix64(hash ^ static_cast<uint32_t>(token));
}

int64_t size_of(std::span<const int32_t> tokens) { return static_cast<int64_t>(tokens.size()); }

}  // namespace

DraftModelSpeculator::DraftModelSpeculator(std::shared_ptr<const Model> model,
                                           const SpeculatorHost& host)
    : model_(std::move(model)) {
  const int64_t own = model_->config().vocab;
  const int64_t target = host.target->config().vocab;
  if (own != target)
    fail(ErrorCode::kInvalidArgument,
         "the draft model has a vocabulary of {} tokens, the target one of {}", own, target);
  kv_ = model_->backend().make_kv_store(model_->kv_shape(host.kv_blocks, host.kv_type));
  written_.resize(static_cast<size_t>(host.kv_blocks));
}

int32_t DraftModelSpeculator::bins() const { return kBinDepths * kProbabilityBins; }

void DraftModelSpeculator::begin(int64_t sequence) {
  if (!states_.try_emplace(sequence).second)
    fail(ErrorCode::kInvalidArgument, "the draft model already has a sequence {}", sequence);
}

void DraftModelSpeculator::end(int64_t sequence) {
  if (states_.erase(sequence) == 0)
    fail(ErrorCode::kInvalidArgument, "the draft model has no sequence {}", sequence);
  round_.start(0);  // its parts may point to the state
  parts_.clear();
}

int64_t DraftModelSpeculator::stored(int64_t sequence) const {
  const auto it = states_.find(sequence);
  if (it == states_.end())
    fail(ErrorCode::kInvalidArgument, "the draft model has no sequence {}", sequence);
  return it->second.stored;
}

DraftModelSpeculator::Part DraftModelSpeculator::part_of(const DraftSequence& sequence) {
  stored(sequence.id);
  const int64_t tokens = size_of(sequence.tokens);
  const int64_t slots = size_of(sequence.blocks) * kKvBlockTokens;
  if (tokens == 0 || sequence.draft_slots < 0 || sequence.draft_slots > slots - tokens)
    fail(ErrorCode::kInvalidArgument,
         "sequence {} has KV blocks for {} tokens, but drafts {} behind {}", sequence.id, slots,
         sequence.draft_slots, tokens);
  for (const int32_t block : sequence.blocks)
    if (block < 0 || static_cast<size_t>(block) >= written_.size())
      fail(ErrorCode::kInvalidArgument, "KV block {} of sequence {} is not in [0, {})", block,
           sequence.id, written_.size());
  return {.state = &states_.at(sequence.id),
          .sequence = sequence,
          .active = tokens <= model_->config().context,
          .after_root = {},
          .stored_parents = {}};
}

// How much of the sequence its blocks hold, whoever wrote it: a block may have been lost to another
// sequence in the meantime, or hold what another one with the same beginning has read. The root is
// run again in any case, for its logits.
void DraftModelSpeculator::find_stored(Part& part) {
  const std::span<const int32_t> tokens = part.sequence.tokens;
  const auto most = size_of(tokens) - 1;
  int64_t stored = 0;
  uint64_t hash = 0;
  for (const int32_t block : part.sequence.blocks) {
    const Written& written = written_[static_cast<size_t>(block)];
    if (written.slots == 0 || stored + written.slots > size_of(tokens)) break;
    for (int64_t i = 0; i < written.slots; ++i)
      hash = step_hash(hash, tokens[static_cast<size_t>(stored + i)]);
    if (hash != written.hash) break;
    stored += written.slots;
    if (written.slots < kKvBlockTokens) break;
  }
  part.state->stored = std::min(stored, most);
}

// The blocks hold the sequence's first `end` tokens.
void DraftModelSpeculator::mark_stored(const Part& part, int64_t end) {
  uint64_t hash = 0;
  for (int64_t i = 0; i < end; ++i) {
    hash = step_hash(hash, part.sequence.tokens[static_cast<size_t>(i)]);
    if ((i + 1) % kKvBlockTokens == 0 || i + 1 == end)
      written_[static_cast<size_t>(part.sequence.blocks[static_cast<size_t>(i / kKvBlockTokens)])] =
          {hash, i % kKvBlockTokens + 1};
  }
}

// Drafts were written to slots behind the sequence's tokens.
void DraftModelSpeculator::mark_scratch(const Part& part, int64_t first, int64_t end) {
  for (int64_t b = first / kKvBlockTokens; b < kv_blocks_for(end); ++b) {
    Written& written = written_[static_cast<size_t>(part.sequence.blocks[static_cast<size_t>(b)])];
    if (written.slots > std::max<int64_t>(first - b * kKvBlockTokens, 0)) written = {};
  }
}

void DraftModelSpeculator::start(std::span<const DraftSequence> sequences) {
  round_.start(0);
  parts_.clear();
  places_.clear();
  for (const DraftSequence& sequence : sequences) parts_.push_back(part_of(sequence));
  for (Part& part : parts_) find_stored(part);
  while (read_chunk()) {
  }
  round_.start(sequences.size());
}

bool DraftModelSpeculator::read_chunk() {
  Batch batch;
  std::vector<Part*> reading, finishing;
  for (Part& part : parts_) {
    const int64_t stored = part.state->stored;
    const int64_t unread = size_of(part.sequence.tokens) - stored;
    const int64_t first = batch.rows();
    const int64_t rows = std::min(unread, kChunkRows - first);
    if (!part.active || rows == 0) continue;
    batch.sequences.push_back({part.sequence.blocks, stored, first, rows});
    for (int64_t i = 0; i < rows; ++i) {
      batch.tokens.push_back(part.sequence.tokens[static_cast<size_t>(stored + i)]);
      batch.parents.push_back(static_cast<int32_t>(i == 0 ? -1 : first + i - 1));
      batch.wants_logits.push_back(i == unread - 1 ? 1 : 0);
    }
    reading.push_back(&part);
    if (rows == unread) finishing.push_back(&part);
  }
  if (reading.empty()) return false;
  const ForwardResult result = model_->forward(batch, *kv_);
  for (size_t i = 0; i < reading.size(); ++i) {
    State& state = *reading[i]->state;
    const int64_t end = state.stored + batch.sequences[i].rows;
    mark_stored(*reading[i], end);
    state.stored = end;
  }
  if (finishing.empty()) return true;
  auto guesses = candidates(result.logits, 0);
  for (size_t i = 0; i < finishing.size(); ++i) finishing[i]->after_root = std::move(guesses[i]);
  return true;
}

std::vector<std::vector<Candidate>> DraftModelSpeculator::candidates(const Tensor& logits,
                                                                     int32_t depth) const {
  Backend& backend = model_->backend();
  const auto k = static_cast<int>(std::min<int64_t>(kMaxWidth, logits.cols()));
  const auto top = backend.top_k(logits, k);
  const std::vector<float> total = backend.log_sum_exp(logits);
  std::vector<std::vector<Candidate>> all(top.size());
  for (size_t r = 0; r < top.size(); ++r) {
    for (const TopEntry& entry : top[r]) {
      const float p = std::exp(entry.value - total[r]);
      if (!(p > 0.0f)) break;  // NaN too
      const float open = open_probability(p);
      all[r].push_back({entry.id, open, depth_bin(depth, open)});
    }
  }
  return all;
}

// Gives the nodes that can be run a slot each and returns them, by sequence. A node cannot be run
// when its sequence has no slot left, the model's context ends or its parent was not run.
std::vector<DraftModelSpeculator::Row> DraftModelSpeculator::admit(std::span<const DraftNode> nodes,
                                                                   int32_t depth) {
  std::vector<Row> rows;
  for (size_t i = 0; i < nodes.size(); ++i) {
    Part& part = parts_[static_cast<size_t>(nodes[i].sequence)];
    const int32_t parent = places_[static_cast<size_t>(nodes[i].parent)];
    const int64_t position = size_of(part.sequence.tokens) - 1 + depth;
    const int64_t used = size_of(part.stored_parents);
    places_.push_back(kNeverRun);
    if (!part.active || parent == kNeverRun || used >= part.sequence.draft_slots ||
        position >= model_->config().context)
      continue;
    places_.back() = static_cast<int32_t>(used);
    part.stored_parents.push_back(parent);
    rows.push_back({i, nodes[i].sequence, nodes[i].token, parent});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.sequence < b.sequence; });
  return rows;
}

// The rows, whose parents were all run by earlier passes of the round.
Batch DraftModelSpeculator::batch_of(std::span<const Row> rows) const {
  Batch batch;
  for (const Row& row : rows) {
    const Part& part = parts_[static_cast<size_t>(row.sequence)];
    if (batch.tokens.empty() || row.sequence != (&row)[-1].sequence)
      batch.sequences.push_back({part.sequence.blocks, size_of(part.sequence.tokens), batch.rows(),
                                 0, part.stored_parents});
    ++batch.sequences.back().rows;
    batch.tokens.push_back(row.token);
    batch.parents.push_back(row.parent < 0 ? -1 : Batch::stored_row(row.parent));
    batch.wants_logits.push_back(1);
  }
  for (Batch::Sequence& sequence : batch.sequences)  // these rows are the last of those given slots
    sequence.stored_parents = sequence.stored_parents.first(sequence.stored_parents.size() -
                                                            static_cast<size_t>(sequence.rows));
  return batch;
}

void DraftModelSpeculator::expand(std::span<const DraftNode> nodes, int32_t width,
                                  std::vector<std::vector<Candidate>>& out) {
  round_.add(nodes);
  out.assign(nodes.size(), {});
  if (nodes.empty()) return;
  if (nodes.front().parent < 0) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      places_.push_back(-1);
      out[i] = parts_[static_cast<size_t>(nodes[i].sequence)].after_root;
    }
  } else {
    const int32_t depth = round_.depth(round_.size() - 1);
    const std::vector<Row> rows = admit(nodes, depth);
    if (rows.empty()) return;
    const Batch batch = batch_of(rows);
    for (const Batch::Sequence& sequence : batch.sequences) {
      const Row& row = rows[static_cast<size_t>(sequence.first_row)];
      const int64_t first = sequence.committed + size_of(sequence.stored_parents);
      mark_scratch(parts_[static_cast<size_t>(row.sequence)], first, first + sequence.rows);
    }
    auto guesses = candidates(model_->forward(batch, *kv_).logits, depth);
    for (size_t i = 0; i < rows.size(); ++i) out[rows[i].index] = std::move(guesses[i]);
  }
  const auto most = static_cast<size_t>(std::max(width, 0));
  for (auto& guesses : out) guesses.resize(std::min(guesses.size(), most));
}

}  // namespace clover
