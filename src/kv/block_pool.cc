// SPDX-License-Identifier: Apache-2.0
#include "kv/block_pool.h"

#include <limits>
#include <unordered_set>
#include <utility>

#include "base/error.h"

namespace clover {

KvBlockPool::KvBlockPool(int64_t blocks, int64_t block_tokens)
    : block_tokens_(block_tokens), total_(blocks) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (blocks < 1 || blocks > kMost || block_tokens < 1 || block_tokens > kMost) {
    fail(ErrorCode::kInvalidArgument,
         "a KV pool of {} blocks of {} tokens was asked for; both must be from 1 to {}", blocks,
         block_tokens, kMost);
  }
  uses_.resize(blocks);
  free_.reserve(blocks);
  for (int64_t b = blocks; b-- > 0;) free_.push_back(static_cast<int32_t>(b));  // 0 on top
}

int64_t KvBlockPool::total_blocks() const { return total_; }
int64_t KvBlockPool::free_blocks() const { return static_cast<int64_t>(free_.size()); }
int64_t KvBlockPool::block_tokens() const { return block_tokens_; }

KvBlockPool::Table& KvBlockPool::insert(int64_t sequence) {
  const auto [it, is_new] = tables_.try_emplace(sequence);
  if (!is_new) {
    fail(ErrorCode::kInvalidArgument, "KV sequence {} exists already", sequence);
  }
  return it->second;
}

void KvBlockPool::create(int64_t sequence) { insert(sequence); }

void KvBlockPool::release(int64_t sequence) {
  for (const int32_t block : table(sequence).blocks) leave(block);
  tables_.erase(sequence);
}

bool KvBlockPool::contains(int64_t sequence) const { return tables_.contains(sequence); }
int64_t KvBlockPool::sequences() const { return static_cast<int64_t>(tables_.size()); }

const KvBlockPool::Table& KvBlockPool::table(int64_t sequence) const {
  const auto it = tables_.find(sequence);
  if (it == tables_.end()) {
    fail(ErrorCode::kInvalidArgument, "KV sequence {} does not exist", sequence);
  }
  return it->second;
}

KvBlockPool::Table& KvBlockPool::table(int64_t sequence) {
  return const_cast<Table&>(std::as_const(*this).table(sequence));
}

int64_t KvBlockPool::committed(int64_t sequence) const { return table(sequence).committed; }
int64_t KvBlockPool::reserved(int64_t sequence) const { return table(sequence).reserved; }
std::span<const int32_t> KvBlockPool::blocks(int64_t sequence) const {
  return table(sequence).blocks;
}

int64_t KvBlockPool::blocks_for(int64_t slots) const {
  return slots / block_tokens_ + (slots % block_tokens_ != 0 ? 1 : 0);
}

int64_t KvBlockPool::address(const Table& t, int64_t slot) const {
  return t.blocks[slot / block_tokens_] * block_tokens_ + slot % block_tokens_;
}

bool KvBlockPool::reserve(int64_t sequence, int64_t slots) {
  Table& t = table(sequence);
  if (slots < 0) {
    fail(ErrorCode::kInvalidArgument, "KV sequence {} was asked to reserve {} slots", sequence,
         slots);
  }
  if (slots > total_ * block_tokens_) return false;  // also keeps the sum below from overflowing
  const int64_t more =
      blocks_for(t.committed + t.reserved + slots) - static_cast<int64_t>(t.blocks.size());
  if (more > free_blocks()) return false;
  for (int64_t i = 0; i < more; ++i) {
    const int32_t block = free_.back();
    free_.pop_back();
    take(block);
    t.blocks.push_back(block);
  }
  t.reserved += slots;
  return true;
}

std::vector<KvMove> KvBlockPool::commit(int64_t sequence, std::span<const int64_t> path) {
  Table& t = table(sequence);
  const int64_t end = t.committed + t.reserved;
  int64_t least = t.committed;
  for (const int64_t slot : path) {
    if (slot < least || slot >= end) {
      fail(ErrorCode::kInvalidArgument,
           "the path of KV sequence {} has slot {}; slots must increase and lie in [{}, {})",
           sequence, slot, t.committed, end);
    }
    least = slot + 1;
  }
  // As the path increases, no token moves up and none lands on a slot whose token still has to
  // move.
  std::vector<KvMove> moves;
  for (size_t i = 0; i < path.size(); ++i) {
    const int64_t to = t.committed + static_cast<int64_t>(i);
    if (path[i] != to) moves.push_back({address(t, path[i]), address(t, to)});
  }
  t.committed += static_cast<int64_t>(path.size());
  shrink(t);
  return moves;
}

void KvBlockPool::commit_prefix(int64_t sequence, int64_t count) {
  Table& t = table(sequence);
  if (count < 0 || count > t.reserved) {
    fail(ErrorCode::kInvalidArgument, "KV sequence {} cannot commit {} of {} reserved slots",
         sequence, count, t.reserved);
  }
  t.committed += count;
  shrink(t);
}

void KvBlockPool::drop(int64_t sequence) { shrink(table(sequence)); }

void KvBlockPool::truncate(int64_t sequence, int64_t length) {
  Table& t = table(sequence);
  if (length < 0 || length > t.committed) {
    fail(ErrorCode::kInvalidArgument, "KV sequence {} of {} tokens cannot be shortened to {}",
         sequence, t.committed, length);
  }
  const bool ends_inside = length % block_tokens_ != 0;
  if (ends_inside && length < t.committed && uses_[t.blocks[length / block_tokens_]].shared()) {
    fail(ErrorCode::kInvalidArgument,
         "KV sequence {} cannot be shortened to {} tokens, the middle of a shared block", sequence,
         length);
  }
  t.committed = length;
  shrink(t);
}

void KvBlockPool::take(int32_t block) {
  idle_ -= uses_[block].idle() ? 1 : 0;
  ++uses_[block].sequences;
}

void KvBlockPool::leave(int32_t block) {
  --uses_[block].sequences;
  idle_ += uses_[block].idle() ? 1 : 0;
  give_back(block);
}

void KvBlockPool::give_back(int32_t block) {
  if (uses_[block].none()) free_.push_back(block);
}

// Drops the reserved slots and the blocks that the committed tokens do not need.
void KvBlockPool::shrink(Table& t) {
  t.reserved = 0;
  while (static_cast<int64_t>(t.blocks.size()) > blocks_for(t.committed)) {
    const int32_t block = t.blocks.back();
    t.blocks.pop_back();
    leave(block);
  }
}

int32_t KvBlockPool::share(int64_t sequence, int64_t index) {
  const Table& t = table(sequence);
  if (index < 0 || index >= t.committed / block_tokens_) {
    fail(ErrorCode::kInvalidArgument,
         "block {} of KV sequence {} cannot be shared: {} blocks are full of committed tokens",
         index, sequence, t.committed / block_tokens_);
  }
  const int32_t block = t.blocks[index];
  ++uses_[block].holds;
  return block;
}

void KvBlockPool::check_block(int32_t block) const {
  if (block < 0 || block >= total_ || uses_[block].holds == 0) {
    fail(ErrorCode::kInvalidArgument, "KV block {} is not held", block);
  }
}

void KvBlockPool::unshare(int32_t block) {
  check_block(block);
  idle_ -= uses_[block].idle() ? 1 : 0;
  --uses_[block].holds;
  idle_ += uses_[block].idle() ? 1 : 0;
  give_back(block);
}

void KvBlockPool::adopt(int64_t sequence, std::span<const int32_t> blocks) {
  std::unordered_set<int32_t> seen;
  for (const int32_t block : blocks) {
    check_block(block);
    if (!seen.insert(block).second) {
      fail(ErrorCode::kInvalidArgument, "KV block {} was given twice to sequence {}", block,
           sequence);
    }
  }
  Table& t = insert(sequence);
  t.blocks.assign(blocks.begin(), blocks.end());
  t.committed = static_cast<int64_t>(blocks.size()) * block_tokens_;
  for (const int32_t block : blocks) take(block);
}

bool KvBlockPool::consistent() const {
  std::vector<int32_t> counted(total_, 0);
  for (const auto& [sequence, t] : tables_) {
    if (t.committed < 0 || t.reserved < 0) return false;
    if (static_cast<int64_t>(t.blocks.size()) != blocks_for(t.committed + t.reserved)) return false;
    for (const int32_t block : t.blocks) ++counted[block];
  }
  std::vector<bool> is_free(total_, false);
  for (const int32_t block : free_) {
    if (is_free[block]) return false;
    is_free[block] = true;
  }
  int64_t idle = 0;
  for (int64_t b = 0; b < total_; ++b) {
    idle += uses_[b].idle() ? 1 : 0;
    if (uses_[b].sequences != counted[b] || uses_[b].holds < 0) return false;
    if (uses_[b].none() != is_free[b]) return false;
  }
  return idle == idle_;
}

}  // namespace clover
