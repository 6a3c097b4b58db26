// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/recycling.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <unordered_map>

#include "base/random.h"
#include "speculation/speculators/probability_bin.h"

namespace clover {
namespace {

// Contexts that are remembered, by length. A row takes about 90 bytes.
constexpr std::array<int64_t, RecyclingSpeculator::kOrders> kCapacity = {1 << 16, 1 << 16, 1 << 16};
// What a context says against the next shorter one, by length.
constexpr std::array<float, RecyclingSpeculator::kOrders> kTrust = {1.0f, 0.6f, 0.6f};
// What is kept of a context's last row when it is seen again, by length.
constexpr std::array<float, RecyclingSpeculator::kOrders> kKeep = {0.5f, 0.5f, 0.0f};

uint64_t context_key(std::span<const int32_t> context) {
  uint64_t key = context.size();
  for (const int32_t token : context) key = mix64(key ^ static_cast<uint32_t>(token));
  return key;
}

// Softmax over the largest logits alone: too large by what the others would have, which the bins
// put right.
RecallTable::Row row_of(std::span<const TopEntry> top) {
  RecallTable::Row row = {};
  const size_t count = std::min(top.size(), static_cast<size_t>(RecallTable::kBest));
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += std::exp(double{top[i].value} - top[0].value);
  for (size_t i = 0; i < count; ++i) {
    row.tokens[i] = top[i].id;
    row.probabilities[i] = static_cast<float>(std::exp(double{top[i].value} - top[0].value) / sum);
  }
  return row;
}

// share * a + (1 - share) * b, the best entries of it.
RecallTable::Row blend(const RecallTable::Row& a, float share, const RecallTable::Row& b) {
  struct Entry {
    int32_t token;
    float probability;
  };
  std::vector<Entry> all;
  const auto add = [&](const RecallTable::Row& row, float weight) {
    for (size_t i = 0; i < row.tokens.size() && row.probabilities[i] > 0.0f; ++i) {
      const auto it = std::find_if(all.begin(), all.end(),
                                   [&](const Entry& e) { return e.token == row.tokens[i]; });
      if (it == all.end()) {
        all.push_back({row.tokens[i], weight * row.probabilities[i]});
      } else {
        it->probability += weight * row.probabilities[i];
      }
    }
  };
  add(a, share);
  add(b, 1.0f - share);
  std::stable_sort(all.begin(), all.end(),
                   [](const Entry& x, const Entry& y) { return x.probability > y.probability; });
  RecallTable::Row row = {};
  for (size_t i = 0; i < row.tokens.size() && i < all.size(); ++i) {
    row.tokens[i] = all[i].token;
    row.probabilities[i] = all[i].probability;
  }
  return row;
}

}  // namespace

RecallTable::RecallTable(int64_t capacity) : places_(static_cast<size_t>(capacity), -1) {}

size_t RecallTable::group(uint64_t context) const {
  return (context & (places_.size() / kWays - 1)) * kWays;
}

const RecallTable::Row* RecallTable::find(uint64_t context) const {
  const size_t first = group(context);
  for (size_t i = first; i < first + kWays && places_[i] >= 0; ++i) {
    const Entry& entry = entries_[static_cast<size_t>(places_[i])];
    if (entry.context == context) return &entry.row;
  }
  return nullptr;
}

void RecallTable::set(uint64_t context, const Row& row) {
  const size_t first = group(context);
  Entry* oldest = nullptr;
  for (size_t i = first; i < first + kWays; ++i) {
    if (places_[i] < 0) {
      places_[i] = static_cast<int32_t>(entries_.size());
      entries_.push_back({context, now_++, row});
      return;
    }
    Entry& entry = entries_[static_cast<size_t>(places_[i])];
    if (entry.context == context) {
      entry.age = now_++;
      entry.row = row;
      return;
    }
    if (oldest == nullptr || entry.age < oldest->age) oldest = &entry;
  }
  *oldest = {context, now_++, row};
}

RecyclingSpeculator::RecyclingSpeculator() {
  for (const int64_t capacity : kCapacity) tables_.emplace_back(capacity);
}

int32_t RecyclingSpeculator::bins() const { return kOrders * kProbabilityBins; }

// Nothing is kept of a sequence: what was learned is about the model.
void RecyclingSpeculator::begin(int64_t) {}
void RecyclingSpeculator::end(int64_t) {}

void RecyclingSpeculator::learn(std::span<const int32_t> context, std::span<const TopEntry> top) {
  if (top.empty()) return;
  const RecallTable::Row seen = row_of(top);
  for (size_t order = 1; order <= std::min(context.size(), tables_.size()); ++order) {
    RecallTable& table = tables_[order - 1];
    const uint64_t key = context_key(context.last(order));
    const RecallTable::Row* known = table.find(key);
    const float keep = kKeep[order - 1];
    table.set(key, known == nullptr || keep == 0.0f ? seen : blend(*known, keep, seen));
  }
}

void RecyclingSpeculator::observe(const ObservedPass& pass) {
  std::unordered_map<int32_t, const ObservedSequence*> by_root;  // first row of a sequence
  for (const ObservedSequence& sequence : pass.sequences)
    if (!sequence.rows.empty()) by_root[sequence.rows.front()] = &sequence;
  for (size_t i = 0; i < pass.top_rows.size(); ++i) {
    std::array<int32_t, kOrders> context;
    size_t begin = context.size();
    int32_t row = pass.top_rows[i];
    int32_t root = row;
    for (; row >= 0 && begin > 0; row = pass.parents[static_cast<size_t>(row)]) {
      context[--begin] = pass.tokens[static_cast<size_t>(row)];
      root = row;
    }
    const auto it = row < 0 ? by_root.find(root) : by_root.end();
    if (it != by_root.end()) {
      const ObservedSequence& sequence = *it->second;
      for (int64_t before = sequence.first - 1; before >= 0 && begin > 0; --before)
        context[--begin] = sequence.tokens[static_cast<size_t>(before)];
    }
    learn(std::span(context).subspan(begin), pass.top[i]);
  }
}

void RecyclingSpeculator::start(std::span<const DraftSequence> sequences) {
  round_.start(sequences);
}

void RecyclingSpeculator::candidates(std::span<const int32_t> context, int32_t width,
                                     std::vector<Candidate>& out) const {
  for (size_t order = 1; order <= std::min(context.size(), tables_.size()); ++order) {
    const RecallTable::Row* row = tables_[order - 1].find(context_key(context.last(order)));
    if (row == nullptr) break;  // then no longer one is known either, unless by replacement
    const float trust = out.empty() ? 1.0f : kTrust[order - 1];
    for (Candidate& candidate : out) candidate.probability *= 1.0f - trust;
    for (size_t k = 0; k < row->tokens.size() && row->probabilities[k] > 0.0f; ++k) {
      const auto it = std::find_if(out.begin(), out.end(),
                                   [&](const Candidate& c) { return c.token == row->tokens[k]; });
      Candidate& candidate =
          it != out.end() ? *it : out.emplace_back(Candidate{row->tokens[k], 0.0f, 0});
      candidate.probability += trust * row->probabilities[k];
      candidate.bin = static_cast<int32_t>(order - 1);
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const Candidate& a, const Candidate& b) {
    return a.probability > b.probability;
  });
  out.resize(std::min(out.size(), static_cast<size_t>(std::max(width, 0))));
  for (Candidate& candidate : out) {
    candidate.probability = open_probability(candidate.probability);
    candidate.bin = candidate.bin * kProbabilityBins + probability_bin(candidate.probability);
  }
}

void RecyclingSpeculator::expand(std::span<const DraftNode> nodes, int32_t width,
                                 std::vector<std::vector<Candidate>>& out) {
  const int32_t first = round_.add(nodes);
  out.assign(nodes.size(), {});
  std::vector<int32_t> context;
  for (size_t i = 0; i < nodes.size(); ++i) {
    round_.context(first + static_cast<int32_t>(i), context);
    candidates(context, width, out[i]);
  }
}

}  // namespace clover
