// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "speculation/speculators/ngram_table.h"

namespace clover {

// A token that a target may say next, and the probability that it gives it.
struct NextToken {
  int32_t token;
  float probability;
};

struct NgramTableOptions {
  int64_t bytes = 4 << 20;  // of the contexts with what follows them, at most
  int32_t best = 6;         // next tokens of a context
};

// Sums what a target says after contexts of one, two and three tokens, and makes a table of it.
// Whole distributions are summed, not the token that happened to be drawn: one row of a target says
// as much as many draws.
class NgramCounts {
 public:
  // What the target says after `context` (its last token last; at most the last three count).
  // Tokens below 2^21.
  void add(std::span<const int32_t> context, std::span<const NextToken> next);
  int64_t rows() const { return rows_; }

  // The contexts whose own rows change most of what the next shorter ones would say, weighted by
  // how often they came, as many as fit. A row is the mean of what came, filled up with the shorter
  // context's row as if that had come kShorter times. Error(kInvalidArgument) when nothing was
  // added or an option is out of range.
  NgramTable::Parts table(const NgramTableOptions& options);

 private:
  // A sum over rows; token -1: how many rows there were.
  struct Sum {
    uint64_t context;
    int32_t token;
    float value;
  };
  struct Row;
  class Rows;

  static void compact(std::vector<Sum>& sums);
  static NgramTable::Parts parts(std::array<std::vector<const Row*>, NgramTable::kOrders>& rows,
                                 int32_t best);
  static void append(NgramTable::Parts& parts, size_t order, const Row& row);

  std::array<std::vector<Sum>, NgramTable::kOrders> sums_;
  std::array<size_t, NgramTable::kOrders> compacted_{};  // sums that are sorted and merged
  int64_t rows_ = 0;
};

}  // namespace clover
