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
//
// Full committed blocks may be shared: a prefix index holds blocks with share() and unshare(), and
// adopt() starts a sequence on them. A shared block is never written, since writes go behind the
// committed tokens, so nothing is ever copied.
//
// Misuse (an unknown or doubled sequence, a number out of range) is an Error(kInvalidArgument) that
// leaves everything unchanged.
class KvBlockPool {
 public:
  // 1 ≤ blocks < 2^31, 1 ≤ block_tokens < 2^31.
  KvBlockPool(int64_t blocks, int64_t block_tokens);

  int64_t total_blocks() const;
  int64_t free_blocks() const;
  // Blocks that are held but in no sequence.
  int64_t idle_blocks() const { return idle_; }
  // Whether the block is in any sequence. The block must be one of the pool's.
  bool in_use(int32_t block) const { return uses_[static_cast<size_t>(block)].sequences > 0; }
  int64_t block_tokens() const;

  // Starts an empty sequence. Ids are the caller's and must be new.
  void create(int64_t sequence);
  // Forgets the sequence and gives back its blocks.
  void release(int64_t sequence);
  bool contains(int64_t sequence) const;
  int64_t sequences() const;

  int64_t committed(int64_t sequence) const;
  int64_t reserved(int64_t sequence) const;
  // Block ids of the sequence; slot s lies in blocks[s / block_tokens]. Valid until the sequence
  // next changes.
  std::span<const int32_t> blocks(int64_t sequence) const;

  // Reserves `slots` more slots behind everything reserved so far; false (and nothing changed) when
  // the pool has too few free blocks.
  [[nodiscard]] bool reserve(int64_t sequence, int64_t slots);
  // Commits the reserved slots of `path` (strictly increasing, ≥ committed, < committed + reserved)
  // as the next tokens, drops the other reserved slots and gives back blocks no longer needed.
  // Returns the copies that bring the path's tokens to their final slots, in a safe order. They
  // must be carried out before anything is written to newly reserved slots: what they read may lie
  // in blocks that were given back.
  std::vector<KvMove> commit(int64_t sequence, std::span<const int64_t> path);
  // Commits the first `count` reserved slots (a chain): no copies.
  void commit_prefix(int64_t sequence, int64_t count);
  // Drops all reserved slots.
  void drop(int64_t sequence);
  // Shortens the committed tokens to `length` (≤ committed); reserved slots are dropped. An Error
  // if `length` ends inside a shared block: what follows would be written over tokens of others.
  void truncate(int64_t sequence, int64_t length);

  // Holds the `index`-th block of the sequence beyond the sequence's life and returns its id. The
  // block must be full of committed tokens. Each call is one hold.
  int32_t share(int64_t sequence, int64_t index);
  // Ends one hold; the block is free when no hold and no sequence is left.
  void unshare(int32_t block);
  // Starts a new sequence on held blocks, all of them full: blocks.size() * block_tokens tokens are
  // committed.
  void adopt(int64_t sequence, std::span<const int32_t> blocks);

  // Whether the books balance: every block free or in use, each use accounted for, every table just
  // long enough. For tests and debug builds; linear in the pool.
  bool consistent() const;

 private:
  struct Table {
    std::vector<int32_t> blocks;
    int64_t committed = 0;
    int64_t reserved = 0;
  };
  // Who keeps a block from being free.
  struct Uses {
    int32_t sequences = 0;
    int32_t holds = 0;
    bool none() const { return sequences == 0 && holds == 0; }
    bool idle() const { return sequences == 0 && holds > 0; }
    bool shared() const { return sequences + holds > 1; }
  };
  Table& table(int64_t sequence);
  const Table& table(int64_t sequence) const;
  Table& insert(int64_t sequence);
  int64_t blocks_for(int64_t slots) const;
  int64_t address(const Table& table, int64_t slot) const;
  void take(int32_t block);
  void leave(int32_t block);
  void give_back(int32_t block);
  void shrink(Table& table);
  void check_block(int32_t block) const;

  int64_t block_tokens_;
  int64_t total_;
  int64_t idle_ = 0;
  std::vector<int32_t> free_;  // a stack
  std::vector<Uses> uses_;     // [total]
  std::unordered_map<int64_t, Table> tables_;
};

}  // namespace clover
