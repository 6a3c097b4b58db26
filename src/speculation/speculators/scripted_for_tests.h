// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "speculation/speculators/draft_round.h"
#include "speculation/speculators/speculator.h"

namespace clover {

// A speculator that knows the answers: right at the first `right` depths of every round, wrong
// below and where it does not know the text. It also checks what it is told: `faults` names every
// breach of Speculator's contract.
class ScriptedSpeculator : public Speculator {
 public:
  struct Script {
    std::vector<std::vector<int32_t>> texts;  // prompts with their true answers
    int32_t vocab = 0;                        // ≥ 2
    int32_t right = 1 << 20;                  // depths; 0: always wrong
    int32_t depth = 64;                       // of its drafts, right or wrong
    float probability = 0.9f;                 // that it claims
  };
  // `faults` must outlive it and may be null.
  ScriptedSpeculator(Script script, std::vector<std::string>* faults)
      : script_(std::move(script)), faults_(faults) {}

  std::string_view name() const override { return "scripted"; }
  int32_t bins() const override { return 1; }
  int32_t max_depth() const override { return script_.depth; }

  void begin(int64_t sequence) override {
    if (!stored_.try_emplace(sequence, 0).second) fault("sequence {} begins twice", sequence);
  }
  void end(int64_t sequence) override {
    if (stored_.erase(sequence) == 0) fault("unknown sequence {} ends", sequence);
  }

  void observe(const ObservedPass& pass) override {
    if (pass.parents.size() != pass.tokens.size())
      fault("{} parents of {} rows", pass.parents.size(), pass.tokens.size());
    for (const ObservedSequence& sequence : pass.sequences) observe(pass, sequence);
  }

  void start(std::span<const DraftSequence> sequences) override {
    round_.start(sequences.size());
    ends_.clear();
    for (const DraftSequence& sequence : sequences) {
      const auto it = stored_.find(sequence.id);
      if (it == stored_.end()) {
        fault("sequence {} drafts without begin()", sequence.id);
      } else if (it->second != static_cast<int64_t>(sequence.tokens.size()) - 1) {
        fault("sequence {} drafts behind {} tokens, {} stored", sequence.id, sequence.tokens.size(),
              it->second);
      }
      ends_.emplace_back(sequence.tokens.begin(), sequence.tokens.end());
    }
  }

  void expand(std::span<const DraftNode> nodes, int32_t width,
              std::vector<std::vector<Candidate>>& out) override {
    const int32_t first = round_.add(nodes);
    out.assign(nodes.size(), {});
    std::vector<int32_t> path;
    for (size_t i = 0; i < nodes.size() && width > 0; ++i) {
      const int32_t number = first + static_cast<int32_t>(i);
      const std::vector<int32_t>& end = ends_[static_cast<size_t>(nodes[i].sequence)];
      round_.context(number, end, end.size() + static_cast<size_t>(script_.depth), path);
      const int32_t depth = round_.depth(number);
      if (depth < script_.depth)
        out[i].push_back({guess(path, depth < script_.right), script_.probability, 0});
    }
  }

 private:
  template <typename... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    if (faults_ != nullptr) faults_->push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void observe(const ObservedPass& pass, const ObservedSequence& sequence) {
    const auto it = stored_.find(sequence.id);
    if (it == stored_.end()) return fault("unknown sequence {} observed", sequence.id);
    const auto size = static_cast<int64_t>(sequence.tokens.size());
    const auto rows = static_cast<int64_t>(sequence.rows.size());
    if (it->second != sequence.first)
      fault("sequence {}: pass begins at {}, {} stored", sequence.id, sequence.first, it->second);
    it->second = sequence.first + rows;
    if (it->second >= size)
      return fault("sequence {}: no token behind {}", sequence.id, it->second);
    for (int64_t i = 0; i < rows; ++i) {
      const auto row = static_cast<size_t>(sequence.rows[static_cast<size_t>(i)]);
      if (row >= pass.tokens.size() ||
          pass.tokens[row] != sequence.tokens[static_cast<size_t>(sequence.first + i)])
        fault("sequence {}: row {} is not its token {}", sequence.id, row, sequence.first + i);
    }
  }

  // The token after `path`, or one that is not.
  int32_t guess(const std::vector<int32_t>& path, bool right) const {
    for (const std::vector<int32_t>& text : script_.texts) {
      if (text.size() <= path.size() || !std::equal(path.begin(), path.end(), text.begin()))
        continue;
      const int32_t truth = text[path.size()];
      return right ? truth : (truth + 1) % script_.vocab;
    }
    return path.empty() ? 0 : (path.back() + 1) % script_.vocab;
  }

  Script script_;
  std::vector<std::string>* faults_;
  std::map<int64_t, int64_t> stored_;  // tokens that passes stored
  DraftRound round_;
  std::vector<std::vector<int32_t>> ends_;  // committed tokens of the round's sequences
};

}  // namespace clover
