// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/merges.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <queue>

#include "base/error.h"

namespace clover {
namespace {

// Below this many symbols scanning all pairs beats a heap.
constexpr size_t kShort = 48;

uint64_t pair_key(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(size_t count) {
  const size_t capacity = std::bit_ceil(std::max<size_t>(16, count * 2));
  slots_.resize(capacity);
  shift_ = 64 - std::countr_zero(capacity);
}

size_t MergeTable::slot_of(uint64_t key) const {
  // Multiplicative hashing takes the high bits, which depend on all bits of both symbols.
  size_t slot = static_cast<size_t>((key * 0x9E3779B97F4A7C15ULL) >> shift_);
  while (slots_[slot].key != key && slots_[slot].key != kEmpty) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slot;
}

void MergeTable::grow() {
  MergeTable larger(slots_.size());
  for (const Slot& slot : slots_) {
    if (slot.key != kEmpty) larger.slots_[larger.slot_of(slot.key)] = slot;
  }
  slots_ = std::move(larger.slots_);
  shift_ = larger.shift_;
}

void MergeTable::add(int32_t left, int32_t right, Merge merge) {
  if ((size_ + 1) * 2 > slots_.size()) grow();
  const uint64_t key = pair_key(left, right);
  Slot& slot = slots_[slot_of(key)];
  if (slot.key == key) return;
  slot = {key, merge};
  ++size_;
}

MergeTable::Merge MergeTable::find(int32_t left, int32_t right) const {
  if (left < 0 || right < 0) return {};
  return slots_[slot_of(pair_key(left, right))].merge;  // an empty slot holds "no merge"
}

void MergeTable::apply(std::vector<int32_t>& symbols) const {
  if (symbols.size() < 2) return;
  if (symbols.size() <= kShort) {
    apply_short(symbols);
  } else {
    apply_long(symbols);
  }
}

void MergeTable::apply_short(std::vector<int32_t>& symbols) const {
  std::array<Merge, kShort> merges;  // merges[i] joins symbols i and i+1
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = find(symbols[i], symbols[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == kNone) break;
    symbols[best] = merges[best].result;
    std::copy(symbols.begin() + static_cast<ptrdiff_t>(best) + 2,
              symbols.begin() + static_cast<ptrdiff_t>(count),
              symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
    std::copy(merges.begin() + best + 1, merges.begin() + count - 1, merges.begin() + best);
    --count;
    if (best > 0) merges[best - 1] = find(symbols[best - 1], symbols[best]);
    if (best + 1 < count) merges[best] = find(symbols[best], symbols[best + 1]);
  }
  symbols.resize(count);
}

void MergeTable::apply_long(std::vector<int32_t>& symbols) const {
  if (symbols.size() >= 0x7FFFFFFF) {
    fail(ErrorCode::kInvalidArgument, "a text of {} symbols is too long to tokenize.",
         symbols.size());
  }
  const auto count = static_cast<uint32_t>(symbols.size());
  // A linked list over the symbols; a removed symbol has no merge. A queue entry is rank and place
  // in one number, valid while the symbol there still has a merge of that rank.
  std::vector<uint32_t> next(count);
  std::vector<uint32_t> previous(count);
  std::vector<Merge> merges(count);
  std::vector<uint64_t> start;
  start.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;
    if (i + 1 < count) merges[i] = find(symbols[i], symbols[i + 1]);
    if (merges[i].rank != kNone) start.push_back(uint64_t{merges[i].rank} << 32 | i);
  }
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> queue({}, std::move(start));
  const auto renew = [&](uint32_t i) {
    merges[i] = next[i] < count ? find(symbols[i], symbols[next[i]]) : Merge{};
    if (merges[i].rank != kNone) queue.push(uint64_t{merges[i].rank} << 32 | i);
  };
  while (!queue.empty()) {
    const auto i = static_cast<uint32_t>(queue.top());
    const auto rank = static_cast<uint32_t>(queue.top() >> 32);
    queue.pop();
    if (merges[i].rank != rank) continue;
    const uint32_t gone = next[i];
    symbols[i] = merges[i].result;
    merges[gone] = {};
    next[i] = next[gone];
    if (next[i] < count) previous[next[i]] = i;
    renew(i);
    if (i > 0) renew(previous[i]);
  }
  size_t kept = 0;
  for (uint32_t i = 0; i < count; i = next[i]) symbols[kept++] = symbols[i];
  symbols.resize(kept);
}

}  // namespace clover
