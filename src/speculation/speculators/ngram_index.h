// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace clover {

// Where a text repeats itself: for the last tokens of a text, the tokens that followed the same
// tokens earlier. Every occurrence is compared token by token, so a hash never invents one.
// Appending costs O(1), a look-up at most a fixed number of comparisons, memory about a hundred
// bytes a token.
class NgramIndex {
 public:
  // Lengths of context that are indexed, and the longer ones that are told apart by comparing on.
  static constexpr std::array<int32_t, 6> kOrders = {1, 2, 3, 4, 6, 8};
  static constexpr std::array<int32_t, 10> kLengths = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
  static constexpr int32_t kLevels = static_cast<int32_t>(kLengths.size());
  static constexpr int32_t kLongest = kLengths.back();
  // Occurrences that are looked at per order, the latest ones.
  static constexpr int32_t kOccurrences = 32;

  struct Guess {
    int32_t token;
    float probability;  // (0, 1)
    int32_t level;      // index into kLengths of the longest context that the token followed
  };

  // At most 2^31 - 1 tokens. Error(kExhausted) beyond.
  void append(int32_t token);
  std::span<const int32_t> tokens() const { return tokens_; }

  // Guesses at the token after `context` (its last kLongest tokens count), by falling probability,
  // ties by token. The context need not be part of the text.
  void guesses(std::span<const int32_t> context, std::vector<Guess>& out) const;
  // The latest occurrences of the last `kOrders[order]` tokens of `context`: places of the tokens
  // that followed, latest first, at most kOccurrences.
  void occurrences(int32_t order, std::span<const int32_t> context,
                   std::vector<int32_t>& out) const;
  int64_t bytes() const;

 private:
  // Contexts of one length. A context is known by the place behind its latest occurrence.
  struct Order {
    std::vector<int32_t> slots;     // open addressing; -1: free
    std::vector<int32_t> previous;  // [tokens] the occurrence before this one, or -1
    int64_t used = 0;
  };
  bool same(int32_t place, std::span<const int32_t> context) const;
  // The slot that holds the context or is free for it.
  size_t slot(const Order& order, uint64_t hash, std::span<const int32_t> context) const;
  void grow(Order& order, int32_t length);

  std::vector<int32_t> tokens_;
  std::array<Order, kOrders.size()> orders_;
};

}  // namespace clover
