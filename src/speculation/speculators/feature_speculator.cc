// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/feature_speculator.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace clover {
namespace {

// Rows of one digest(): enough to keep all threads busy, few enough for the caches.
constexpr int64_t kDigestRows = 256;

}  // namespace

FeatureSpeculator::FeatureSpeculator(const SpeculatorHost& host, bool history, int64_t kv_layers)
    : host_(host), history_(history), hidden_(host.target->config().hidden) {
  if (kv_layers == 0) return;
  KvShape shape = host.target->kv_shape(host.kv_blocks, host.kv_type);
  shape.layers = kv_layers;
  kv_ = host.target->backend().make_kv_store(shape);
  filled_.resize(static_cast<size_t>(host.kv_blocks));
}

void FeatureSpeculator::begin(int64_t sequence) { states_.try_emplace(sequence); }

void FeatureSpeculator::end(int64_t sequence) { states_.erase(sequence); }

void FeatureSpeculator::check_blocks(std::span<const int32_t> blocks, int64_t slots) const {
  if (static_cast<int64_t>(blocks.size()) * kKvBlockTokens < slots)
    fail(ErrorCode::kInvalidArgument, "a speculator got {} KV blocks for {} tokens", blocks.size(),
         slots);
  for (const int32_t block : blocks) {
    if (block < 0 || block >= host_.kv_blocks)
      fail(ErrorCode::kInvalidArgument, "KV block {} is not in [0, {})", block, host_.kv_blocks);
  }
}

void FeatureSpeculator::observe(const ObservedPass& pass) {
  std::vector<Work> full;
  for (const ObservedSequence& sequence : pass.sequences) {
    const auto found = states_.find(sequence.id);
    if (found == states_.end() || sequence.rows.empty()) continue;
    State& state = found->second;
    keep(pass, sequence, state);
    if (static_cast<int64_t>(state.next.size()) > kMaxPending)
      full.push_back({&state, sequence.blocks});
  }
  if (!full.empty()) catch_up(std::move(full));
}

// The target has stored other tokens in these slots.
void FeatureSpeculator::forget_slots(std::span<const int32_t> blocks, int64_t first,
                                     int64_t count) {
  if (filled_.empty()) return;
  check_blocks(blocks, first + count);
  for (int64_t slot = first; slot < first + count; slot += kKvBlockTokens - slot % kKvBlockTokens) {
    Filled& filled =
        filled_[static_cast<size_t>(blocks[static_cast<size_t>(slot / kKvBlockTokens)])];
    filled.slots = std::min(filled.slots, static_cast<int32_t>(slot % kKvBlockTokens));
  }
}

void FeatureSpeculator::note_slot(std::span<const int32_t> blocks, int64_t slot, int32_t behind) {
  if (filled_.empty()) return;
  Filled& filled = filled_[static_cast<size_t>(blocks[static_cast<size_t>(slot / kKvBlockTokens)])];
  if (filled.slots != slot % kKvBlockTokens) return;
  ++filled.slots;
  filled.behind = behind;
}

int64_t FeatureSpeculator::known_prefix(std::span<const int32_t> tokens,
                                        std::span<const int32_t> blocks) const {
  const auto all = static_cast<int64_t>(blocks.size());
  if (filled_.empty()) return all * kKvBlockTokens;
  int64_t known = 0;
  for (; known < all; ++known) {
    const Filled& filled = filled_[static_cast<size_t>(blocks[static_cast<size_t>(known)])];
    if (filled.slots < kKvBlockTokens ||
        filled.behind != tokens[static_cast<size_t>((known + 1) * kKvBlockTokens)])
      break;
  }
  return known * kKvBlockTokens;
}

void FeatureSpeculator::keep(const ObservedPass& pass, const ObservedSequence& sequence,
                             State& state) {
  const auto count = static_cast<int64_t>(sequence.rows.size());
  const int64_t known = static_cast<int64_t>(sequence.tokens.size()) - 1;
  if (sequence.first < 0 || sequence.first + count > known)
    fail(ErrorCode::kInvalidArgument, "a pass stored tokens {} to {} of a sequence of {}",
         sequence.first, sequence.first + count, known + 1);
  const auto pending = static_cast<int64_t>(state.next.size());
  forget_slots(sequence.blocks, sequence.first, count);
  if (sequence.first < state.digested + pending) {
    // Read anew from there, as after a preemption.
    const int64_t left = std::max<int64_t>(sequence.first - state.digested, 0);
    state.next.resize(static_cast<size_t>(left));
    state.hidden.resize(static_cast<size_t>(left * hidden_));
    state.digested = std::min(state.digested, sequence.first);
  } else if (sequence.first > state.digested + pending) {
    // Tokens that another sequence has stored in these blocks.
    state.next.clear();
    state.hidden.clear();
    state.digested = sequence.first;
  }
  std::span<const int32_t> rows = sequence.rows;
  int64_t first = sequence.first;
  if (!history_) {
    first += count - 1;
    rows = rows.last(1);
    state.next.clear();
    state.hidden.clear();
    state.digested = first;
  }
  const Tensor features = backend().gather_rows(pass.hidden, rows);
  const size_t at = state.hidden.size();
  state.hidden.resize(at + rows.size() * static_cast<size_t>(hidden_));
  backend().to_host(features, state.hidden.data() + at);
  const auto behind = sequence.tokens.subspan(static_cast<size_t>(first) + 1, rows.size());
  state.next.insert(state.next.end(), behind.begin(), behind.end());
}

void FeatureSpeculator::catch_up(std::vector<Work> work) {
  while (true) {
    std::erase_if(work, [](const Work& w) { return w.state->next.empty(); });
    if (work.empty()) return;
    digest_some(work);
  }
}

// One pass over the first features of the sequences, as many as fit.
void FeatureSpeculator::digest_some(std::span<const Work> work) {
  AttentionPlan plan;
  plan.tail_begin.push_back(0);
  std::vector<float> hidden;
  std::vector<int32_t> next;
  std::vector<int32_t> last_rows;
  for (const Work& w : work) {
    const auto first_row = static_cast<int64_t>(next.size());
    const auto pending = static_cast<int64_t>(w.state->next.size());
    const int64_t rows = std::min(pending, kDigestRows - first_row);
    if (rows == 0) break;
    if (kv_) check_blocks(w.blocks, w.state->digested + rows);
    plan.sequences.push_back({w.blocks, first_row, rows});
    for (int64_t slot = w.state->digested; slot < w.state->digested + rows; ++slot) {
      plan.slot.push_back(slot);
      plan.position.push_back(slot);
      plan.linear_len.push_back(slot + 1);
      plan.tail_begin.push_back(0);
    }
    hidden.insert(hidden.end(), w.state->hidden.begin(), w.state->hidden.begin() + rows * hidden_);
    next.insert(next.end(), w.state->next.begin(), w.state->next.begin() + rows);
    last_rows.push_back(static_cast<int32_t>(next.size()) - 1);
  }
  Backend& b = backend();
  const auto rows = static_cast<int64_t>(next.size());
  const Tensor out =
      b.gather_rows(digest(b.from_host(rows, hidden_, hidden.data()), next, plan), last_rows);
  std::vector<float> last(last_rows.size() * static_cast<size_t>(hidden_));
  b.to_host(out, last.data());
  for (size_t i = 0; i < last_rows.size(); ++i) {
    State& state = *work[i].state;
    const int64_t count = plan.sequences[i].rows;
    for (int64_t n = 0; n < count; ++n)
      note_slot(work[i].blocks, state.digested + n, state.next[static_cast<size_t>(n)]);
    state.digested += count;
    state.hidden.erase(state.hidden.begin(), state.hidden.begin() + count * hidden_);
    state.next.erase(state.next.begin(), state.next.begin() + count);
    const auto begin = last.begin() + static_cast<int64_t>(i) * hidden_;
    state.last.assign(begin, begin + hidden_);
  }
}

void FeatureSpeculator::start(std::span<const DraftSequence> sequences) {
  sequences_.assign(sequences.begin(), sequences.end());
  ready_.assign(sequences.size(), nullptr);
  round_.start(sequences.size());
  depth_.clear();
  kept_.clear();
  node_states_.clear();
  std::vector<Work> work;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const auto found = states_.find(sequences[i].id);
    if (found == states_.end()) continue;
    State& state = found->second;
    const int64_t known = state.digested + static_cast<int64_t>(state.next.size());
    // All but the root must have been seen.
    if (known != static_cast<int64_t>(sequences[i].tokens.size()) - 1 || known == 0) continue;
    if (state.next.empty() && state.last.empty()) continue;
    ready_[i] = &state;
    work.push_back({&state, sequences[i].blocks});
  }
  catch_up(std::move(work));
}

// The states before the given nodes, as one tensor.
void FeatureSpeculator::read_before(std::span<const int32_t> numbers, DraftRows& rows) const {
  std::vector<float> before;
  before.reserve(numbers.size() * static_cast<size_t>(hidden_));
  for (const int32_t number : numbers) {
    const DraftNode& node = round_.node(number);
    rows.nodes.push_back(number);
    rows.tokens.push_back(node.token);
    const float* from =
        node.parent < 0 ? ready_[static_cast<size_t>(node.sequence)]->last.data()
                        : node_states_.data() + kept_[static_cast<size_t>(node.parent)] * hidden_;
    before.insert(before.end(), from, from + hidden_);
  }
  rows.before = backend().from_host(static_cast<int64_t>(numbers.size()), hidden_, before.data());
}

// Which nodes get a row of the pass: their numbers in `chosen`; every node's row, or -1.
std::vector<int64_t> FeatureSpeculator::choose_rows(int32_t first, int32_t depth,
                                                    std::vector<int32_t>& chosen) {
  std::vector<int64_t> row;
  std::unordered_map<int32_t, int64_t> row_of_sequence;
  for (int32_t number = first; number < round_.size(); ++number) {
    const DraftNode& node = round_.node(number);
    row.push_back(-1);
    const bool begun = node.parent < 0 ? ready_[static_cast<size_t>(node.sequence)] != nullptr
                                       : kept_[static_cast<size_t>(node.parent)] >= 0;
    if (!begun || depth_[static_cast<size_t>(number)] != depth) continue;
    const auto next = static_cast<int64_t>(chosen.size());
    if (same_in_sequence(depth)) {
      const auto [found, added] = row_of_sequence.try_emplace(node.sequence, next);
      row.back() = found->second;
      if (!added) continue;
    } else if (place(number)) {
      row.back() = next;
    } else {
      continue;
    }
    chosen.push_back(number);
  }
  return row;
}

void FeatureSpeculator::expand(std::span<const DraftNode> nodes, int32_t width,
                               std::vector<std::vector<Candidate>>& out) {
  out.assign(nodes.size(), {});
  const int32_t first = round_.add(nodes);
  kept_.resize(static_cast<size_t>(round_.size()), -1);
  for (const DraftNode& node : nodes)
    depth_.push_back(node.parent < 0 ? 0 : depth_[static_cast<size_t>(node.parent)] + 1);
  if (nodes.empty() || width < 1 || depth_.back() >= max_depth()) return;
  DraftRows rows;
  rows.depth = depth_.back();
  std::vector<int32_t> chosen;
  const std::vector<int64_t> row = choose_rows(first, rows.depth, chosen);
  if (chosen.empty()) return;
  read_before(chosen, rows);
  const DraftStep step = draft(rows);
  const auto candidates = best_candidates(backend(), draft_head(), step.head, rows.depth, width);
  const auto base = static_cast<int64_t>(node_states_.size()) / hidden_;
  node_states_.resize(node_states_.size() + chosen.size() * static_cast<size_t>(hidden_));
  backend().to_host(step.state, node_states_.data() + base * hidden_);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (row[i] < 0) continue;
    kept_[static_cast<size_t>(first) + i] = base + row[i];
    out[i] = candidates[static_cast<size_t>(row[i])];
  }
}

}  // namespace clover
