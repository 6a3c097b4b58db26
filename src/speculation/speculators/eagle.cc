// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/eagle.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace clover {

EagleSpeculator::EagleSpeculator(std::shared_ptr<const EagleWeights> weights,
                                 const SpeculatorHost& host)
    : FeatureSpeculator(host, true, 1),
      weights_(std::move(weights)),
      network_(*weights_, target()) {}

void EagleSpeculator::start(std::span<const DraftSequence> sequences) {
  for (const DraftSequence& s : sequences)
    check_blocks(s.blocks, static_cast<int64_t>(s.tokens.size()) + s.draft_slots);
  used_.assign(sequences.size(), 0);
  slot_.clear();
  FeatureSpeculator::start(sequences);
}

// Roots need no slot: their feature came with the committed tokens.
bool EagleSpeculator::place(int32_t number) {
  slot_.resize(static_cast<size_t>(round().size()), -1);
  const DraftNode& node = round().node(number);
  if (node.parent < 0) return true;
  const auto s = static_cast<size_t>(node.sequence);
  if (used_[s] >= sequences()[s].draft_slots) return false;
  slot_[static_cast<size_t>(number)] =
      static_cast<int64_t>(sequences()[s].tokens.size()) + used_[s]++;
  return true;
}

Tensor EagleSpeculator::digest(const Tensor& hidden, std::span<const int32_t> next,
                               const AttentionPlan& plan) {
  return network_.next_feature(hidden, next, *own_kv(), plan);
}

// The path of a drafted token: the committed tokens but the root, whose place its parent's draft
// takes, then the drafts down to it.
void EagleSpeculator::append_row(int32_t number, AttentionPlan& plan) const {
  const DraftNode& node = round().node(number);
  const auto tokens =
      static_cast<int64_t>(sequences()[static_cast<size_t>(node.sequence)].tokens.size());
  const size_t begin = plan.tail.size();
  for (int32_t at = number; round().node(at).parent >= 0; at = round().node(at).parent)
    plan.tail.push_back(slot_[static_cast<size_t>(at)]);
  std::reverse(plan.tail.begin() + static_cast<int64_t>(begin), plan.tail.end());
  const auto depth = static_cast<int64_t>(plan.tail.size() - begin);
  plan.slot.push_back(slot_[static_cast<size_t>(number)]);
  plan.position.push_back(tokens - 2 + depth);
  plan.linear_len.push_back(tokens - 1);
  plan.tail_begin.push_back(static_cast<int64_t>(plan.tail.size()));
}

FeatureSpeculator::DraftStep EagleSpeculator::draft(const DraftRows& rows) {
  Backend& b = backend();
  if (rows.depth == 0) return {rows.before, network_.head_input(rows.before)};
  // Rows of one sequence have to be neighbours.
  std::vector<int32_t> order(rows.nodes.size());
  std::iota(order.begin(), order.end(), 0);
  const auto sequence = [&](int32_t i) {
    return round().node(rows.nodes[static_cast<size_t>(i)]).sequence;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t i, int32_t j) { return sequence(i) < sequence(j); });
  AttentionPlan plan;
  plan.tail_begin.push_back(0);
  std::vector<int32_t> tokens;
  std::vector<int32_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || sequence(order[i]) != sequence(order[i - 1])) {
      const auto s = static_cast<size_t>(sequence(order[i]));
      plan.sequences.push_back({sequences()[s].blocks, static_cast<int64_t>(i), 0});
    }
    ++plan.sequences.back().rows;
    append_row(rows.nodes[static_cast<size_t>(order[i])], plan);
    tokens.push_back(rows.tokens[static_cast<size_t>(order[i])]);
    back[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
  }
  const Tensor out = digest(b.gather_rows(rows.before, order), tokens, plan);
  const Tensor state = b.gather_rows(out, back);
  return {state, network_.head_input(state)};
}

}  // namespace clover
