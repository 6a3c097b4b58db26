// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "speculation/speculators/speculator.h"

namespace clover {

// The nodes of a round, numbered as Speculator::expand() numbers them.
class DraftRound {
 public:
  // Forgets the last round's nodes.
  void start(size_t sequences);
  // Adds the nodes of one expand() and returns the number of the first. Error(kInvalidArgument) for
  // a sequence or a parent that the round does not have; nothing is added then.
  int32_t add(std::span<const DraftNode> nodes);
  int32_t size() const { return static_cast<int32_t>(nodes_.size()); }
  const DraftNode& node(int32_t number) const { return nodes_[static_cast<size_t>(number)]; }
  // 0 for a root.
  int32_t depth(int32_t number) const;
  // The last tokens before and at a node, in reading order, at most `length`: the drafts on its
  // path behind the end of `committed`, which ends with the root.
  void context(int32_t number, std::span<const int32_t> committed, size_t length,
               std::vector<int32_t>& out) const;

 private:
  size_t sequences_ = 0;
  std::vector<DraftNode> nodes_;
};

// A round of a speculator that looks at the last tokens of a path alone.
class ContextRound {
 public:
  // Contexts have at most `length` tokens.
  explicit ContextRound(size_t length) : length_(length) {}
  void start(std::span<const DraftSequence> sequences);
  int32_t add(std::span<const DraftNode> nodes) { return round_.add(nodes); }
  // The last tokens at a node, in reading order.
  void context(int32_t number, std::vector<int32_t>& out) const;

 private:
  size_t length_;
  DraftRound round_;
  std::vector<std::vector<int32_t>> ends_;  // last tokens of each sequence of the round
};

}  // namespace clover
