// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "speculation/speculators/speculator.h"

namespace clover {

// The worst case: a speculator that is sure and (but for luck) always wrong. What it costs is what
// speculation can cost at most.
class WrongSpeculator : public Speculator {
 public:
  explicit WrongSpeculator(int64_t vocab) : vocab_(static_cast<int32_t>(vocab)) {}

  std::string_view name() const override { return "wrong"; }
  int32_t bins() const override { return 1; }
  int32_t max_depth() const override { return 8; }
  void begin(int64_t) override {}
  void end(int64_t) override {}
  void observe(const ObservedPass&) override {}
  void start(std::span<const DraftSequence>) override {}
  void expand(std::span<const DraftNode> nodes, int32_t,
              std::vector<std::vector<Candidate>>& out) override {
    out.clear();
    // Rare tokens, another one each time.
    for (const DraftNode& node : nodes)
      out.push_back({{vocab_ - 1 - (node.token * 7 + 13) % (vocab_ / 4 + 1), 0.9f, 0}});
  }

 private:
  int32_t vocab_;
};

}  // namespace clover
