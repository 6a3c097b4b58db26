// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "speculation/speculators/speculator.h"

namespace clover::testing_support {

// Reports a pass that stored `rows` tokens from `first` on as one chain, with `top` for its last
// rows.
inline void observe_chain(Speculator& speculator, int64_t id, std::span<const int32_t> tokens,
                          size_t first, size_t rows,
                          std::span<const std::vector<TopEntry>> top = {}) {
  std::vector<int32_t> parents, own, top_rows;
  for (size_t i = 0; i < rows; ++i) {
    parents.push_back(static_cast<int32_t>(i) - 1);
    own.push_back(static_cast<int32_t>(i));
    if (i + top.size() >= rows) top_rows.push_back(static_cast<int32_t>(i));
  }
  const std::vector<ObservedSequence> sequences = {{.id = id,
                                                    .tokens = tokens,
                                                    .blocks = {},
                                                    .first = static_cast<int64_t>(first),
                                                    .rows = own}};
  const Tensor none;
  speculator.observe({.hidden = none,
                      .tokens = tokens.subspan(first, rows),
                      .parents = parents,
                      .top_rows = top_rows,
                      .top = top,
                      .sequences = sequences});
}

}  // namespace clover::testing_support
