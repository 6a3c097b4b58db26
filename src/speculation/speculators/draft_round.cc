// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/draft_round.h"

#include <algorithm>

#include "base/error.h"

namespace clover {

void DraftRound::start(size_t sequences) {
  sequences_ = sequences;
  nodes_.clear();
}

int32_t DraftRound::add(std::span<const DraftNode> nodes) {
  const int32_t first = size();
  for (const DraftNode& node : nodes) {
    if (node.sequence < 0 || static_cast<size_t>(node.sequence) >= sequences_)
      fail(ErrorCode::kInvalidArgument, "draft node of sequence {} in a round of {}", node.sequence,
           sequences_);
    if (node.parent < -1 || node.parent >= first ||
        (node.parent >= 0 && this->node(node.parent).sequence != node.sequence))
      fail(ErrorCode::kInvalidArgument, "draft node {} is no earlier node of sequence {}",
           node.parent, node.sequence);
  }
  nodes_.insert(nodes_.end(), nodes.begin(), nodes.end());
  return first;
}

int32_t DraftRound::depth(int32_t number) const {
  int32_t depth = 0;
  for (; node(number).parent >= 0; number = node(number).parent) ++depth;
  return depth;
}

void DraftRound::context(int32_t number, std::span<const int32_t> committed, size_t length,
                         std::vector<int32_t>& out) const {
  out.clear();
  int32_t at = number;
  for (; node(at).parent >= 0 && out.size() < length; at = node(at).parent)
    out.push_back(node(at).token);
  const size_t known = std::min(length - out.size(), committed.size());
  for (size_t i = 0; i < known; ++i) out.push_back(committed[committed.size() - 1 - i]);
  std::reverse(out.begin(), out.end());
}

void ContextRound::start(std::span<const DraftSequence> sequences) {
  round_.start(sequences.size());
  ends_.clear();
  for (const DraftSequence& sequence : sequences) {
    const std::span<const int32_t> last =
        sequence.tokens.last(std::min(sequence.tokens.size(), length_));
    ends_.emplace_back(last.begin(), last.end());
  }
}

void ContextRound::context(int32_t number, std::vector<int32_t>& out) const {
  round_.context(number, ends_[static_cast<size_t>(round_.node(number).sequence)], length_, out);
}

}  // namespace clover
