// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace clover {

// A token's copy inside the KV memory, as addresses (block id * block tokens + offset).
struct KvMove {
  int64_t from;
  int64_t to;
};

// Which blocks belong to which sequence, and how many of their slots are committed. Speaks ids and
// counts only; the keys and values themselves are the backend's.
//
// A sequence holds `committed` tokens in slots 0 … committed-1. A step reserves slots behind them
// for its rows (prompt chunk or tree), then commits the path that was accepted, given as reserved
// slots in path order; everything else reserved is dropped. Not thread-safe: one owner.
class KvBlockPool {
 public:
  KvBlockPool(int64_t blocks, int64_t block_tokens);

  int64_t total_blocks() const;
  int64_t free_blocks() const;
  int64_t block_tokens() const;

  // Starts an empty sequence. Ids are the caller's and must be new.
  void create(int64_t sequence);
  // Gives back all blocks of the sequence.
  void release(int64_t sequence);
  bool contains(int64_t sequence) const;
  int64_t sequences() const;

  int64_t committed(int64_t sequence) const;
  int64_t reserved(int64_t sequence) const;
  // Block ids of the sequence; slot s lies in blocks[s / block_tokens].
  std::span<const int32_t> blocks(int64_t sequence) const;

  // Reserves `slots` more slots behind everything reserved so far; false (and nothing changed) when
  // the pool has too few free blocks.
  [[nodiscard]] bool reserve(int64_t sequence, int64_t slots);
  // Commits the reserved slots of `path` (strictly increasing, ≥ committed, < committed + reserved)
  // as the next tokens, drops the other reserved slots and gives back blocks no longer needed.
  // Returns the copies that bring the path's tokens to their final slots, in a safe order.
  std::vector<KvMove> commit(int64_t sequence, std::span<const int64_t> path);
  // Commits the first `count` reserved slots (a chain): no copies.
  void commit_prefix(int64_t sequence, int64_t count);
  // Drops all reserved slots.
  void drop(int64_t sequence);
  // Shortens the committed tokens to `length` (≤ committed); reserved slots are dropped.
  void truncate(int64_t sequence, int64_t length);

  // Aborts with a message when the books do not balance (every block free or owned exactly once).
  // For tests and debug builds.
  bool consistent() const;

 private:
  struct Table {
    std::vector<int32_t> blocks;
    int64_t committed = 0;
    int64_t reserved = 0;
  };
  Table& table(int64_t sequence);
  const Table& table(int64_t sequence) const;
  void shrink(Table& table);

  int64_t block_tokens_;
  int64_t total_;
  std::vector<int32_t> free_;
  std::unordered_map<int64_t, Table> tables_;
};

}  // namespace clover
