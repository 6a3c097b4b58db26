// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace clover {

// What a target says after its last tokens, gathered beforehand from texts that it wrote itself
// (src/train/ngram_counts.h): for contexts of one to kOrders tokens the most likely next tokens.
// Immutable and shared by all engines.
class NgramTable {
 public:
  static constexpr size_t kOrders = 3;
  static constexpr int32_t kMostNext = 8;        // next tokens that a context can have
  static constexpr int64_t kMostTokens = 32768;  // tokens that a table can name

  // As a package stores it. A token's number is its place in `tokens`.
  struct Order {
    std::vector<int16_t> contexts;       // [C][order] numbers, the last token of a context first;
                                         // ascending, no context twice
    std::vector<int16_t> next;           // [C][best] numbers, the most likely first; -1: none
    std::vector<uint8_t> probabilities;  // [C][best] in steps of 1/256, from 0.5/256
    int64_t size(size_t order) const { return static_cast<int64_t>(contexts.size() / order); }
  };
  struct Parts {
    std::vector<int32_t> tokens;
    int32_t best = 0;                   // [1, kMostNext]
    std::array<Order, kOrders> orders;  // contexts of 1, 2, 3 tokens
  };

  // A table for a vocabulary of `vocab` tokens. Error(kCorrupt), beginning with `name`, for parts
  // that do not fit together, tokens outside the vocabulary or given twice, numbers that name no
  // token, contexts out of order.
  NgramTable(Parts parts, int64_t vocab, const std::string& name);

  struct Guess {
    int32_t token;
    float probability;
    int32_t order;  // tokens of the context that it is from
  };
  // What may follow `context` (the last token last), best first, no token twice, at most `width`:
  // the row of the longest context that is known, then what shorter ones add.
  void guesses(std::span<const int32_t> context, int32_t width, std::vector<Guess>& out) const;

  const Parts& parts() const { return parts_; }
  int64_t bytes() const;

 private:
  int64_t find(size_t order, std::span<const int16_t> reversed) const;

  Parts parts_;
  std::vector<int16_t> number_;  // [vocab], -1: not in the table
  // Contexts of an order that end in a token: [order - 1][number], [first, first of the next).
  std::array<std::vector<int32_t>, kOrders> first_;
};

}  // namespace clover
