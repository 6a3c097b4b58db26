// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv/block_pool.h"

namespace clover {

// Finds full KV blocks by the tokens that they and the blocks before them hold, so that a sequence
// can begin on what another one has computed. A tree of blocks: a node is its parent and the ids of
// its own block; the hash only finds candidates, the ids decide. The index holds its blocks in the
// pool; when memory is short, those that no sequence uses go, the longest unused first and never
// before the blocks behind them.
class PrefixIndex {
 public:
  // The pool must outlive the index.
  explicit PrefixIndex(KvBlockPool& pool) : pool_(pool) {}

  // The longest known run of full blocks at the beginning of `tokens`.
  std::vector<int32_t> find(std::span<const int32_t> tokens);
  // Takes in the full committed blocks of a sequence, whose first tokens are `tokens`. Blocks whose
  // content is known already stay the sequence's own. Costs only what is new since `known`, the
  // return value of the call before for this sequence (0 at first).
  struct Known {
    int64_t blocks = 0;
    int64_t node = -1;
    uint64_t epoch = 0;
  };
  Known publish(int64_t sequence, std::span<const int32_t> tokens, const Known& known);
  // Gives up unused blocks until the pool has `wanted` free ones; false when it cannot.
  bool make_room(int64_t wanted);

  int64_t blocks() const { return static_cast<int64_t>(nodes_.size()); }

 private:
  struct Node {
    int64_t parent = -1;  // -1: the beginning of a text
    int32_t block = 0;
    int32_t children = 0;
    uint64_t used = 0;         // clock of the last use
    uint64_t hash = 0;         // key in by_hash_
    std::vector<int32_t> ids;  // of this block
  };
  int64_t child(int64_t parent, std::span<const int32_t> ids) const;
  int64_t add(int64_t parent, std::span<const int32_t> ids, int32_t block);
  void touch(int64_t node);
  bool drop_one();

  KvBlockPool& pool_;
  std::unordered_map<int64_t, Node> nodes_;
  std::unordered_multimap<uint64_t, int64_t> by_hash_;
  std::map<uint64_t, int64_t> leaves_;  // by last use
  int64_t next_node_ = 0;
  uint64_t clock_ = 0;
  uint64_t epoch_ = 0;  // counts removals: a node remembered from before may be gone
};

}  // namespace clover
