// SPDX-License-Identifier: Apache-2.0
#include "train/ngram_counts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/error.h"

namespace clover {
namespace {

constexpr size_t kOrders = NgramTable::kOrders;
constexpr int kTokenBits = 21;
constexpr uint64_t kTokenMask = (uint64_t{1} << kTokenBits) - 1;
// Rows that the next shorter context's is worth.
constexpr float kShorter = 0.5f;
// Sums are merged when there are this many new ones.
constexpr size_t kCompactAt = 8 << 20;
// Next tokens of a context that are kept for longer ones to build on.
constexpr size_t kKept = 32;

// A context with its last token in the highest bits, so that they sort as a table's do.
uint64_t key_of(std::span<const int32_t> context) {
  uint64_t key = 0;
  for (size_t i = context.size(); i > 0; --i)
    key = key << kTokenBits | static_cast<uint64_t>(context[i - 1]);
  return key;
}

uint64_t shorter(uint64_t key) { return key >> kTokenBits; }

}  // namespace

// What follows a context, the most likely first.
struct NgramCounts::Row {
  uint64_t context = 0;
  float count = 0.0f;
  float gain = 0.0f;
  std::vector<NextToken> next;
};

// The rows of an order, by context.
class NgramCounts::Rows {
 public:
  // Smooths the sums, which are compact, with the rows of the next shorter contexts.
  Rows(std::span<const Sum> sums, const Rows* shorter_rows) {
    for (size_t begin = 0; begin < sums.size();) {
      size_t end = begin;
      while (end < sums.size() && sums[end].context == sums[begin].context) ++end;
      add(sums.subspan(begin, end - begin), shorter_rows);
      begin = end;
    }
  }
  const Row* find(uint64_t context) const {
    const auto it = std::lower_bound(rows_.begin(), rows_.end(), context,
                                     [](const Row& row, uint64_t c) { return row.context < c; });
    return it == rows_.end() || it->context != context ? nullptr : &*it;
  }
  const std::vector<Row>& all() const { return rows_; }

 private:
  void add(std::span<const Sum> sums, const Rows* shorter_rows) {
    const Row* less = shorter_rows ? shorter_rows->find(shorter(sums.front().context)) : nullptr;
    Row row;
    row.context = sums.front().context;
    row.count = sums.front().value;  // of token -1, which is the first
    const float share = 1.0f / (row.count + (less ? kShorter : 0.0f));
    row.gain = row.count;  // without a shorter context nothing would be known
    for (const Sum& sum : sums.subspan(1)) row.next.push_back({sum.token, sum.value * share});
    if (less) fill_up(row, *less, kShorter * share);
    std::stable_sort(row.next.begin(), row.next.end(), [](const NextToken& a, const NextToken& b) {
      return a.probability > b.probability;
    });
    row.next.resize(std::min(row.next.size(), kKept));
    rows_.push_back(std::move(row));
  }

  // Adds `weight` of a shorter context's row, and notes how much the row differs from it.
  static void fill_up(Row& row, const Row& less, float weight) {
    std::map<int32_t, float> other;
    for (const NextToken& next : less.next) other[next.token] = next.probability;
    float difference = 0.0f;
    for (NextToken& next : row.next) {
      const auto it = other.find(next.token);
      const float before = it == other.end() ? 0.0f : it->second;
      next.probability += weight * before;
      difference += std::max(0.0f, next.probability - before);
      if (it != other.end()) other.erase(it);
    }
    for (const NextToken& next : less.next)
      if (other.contains(next.token)) row.next.push_back({next.token, weight * next.probability});
    row.gain = row.count * difference;
  }

  std::vector<Row> rows_;  // contexts ascend, as they do in the sums
};

void NgramCounts::compact(std::vector<Sum>& sums) {
  std::stable_sort(sums.begin(), sums.end(), [](const Sum& a, const Sum& b) {
    return a.context != b.context ? a.context < b.context : a.token < b.token;
  });
  size_t kept = 0;
  for (const Sum& sum : sums) {
    if (kept > 0 && sums[kept - 1].context == sum.context && sums[kept - 1].token == sum.token)
      sums[kept - 1].value += sum.value;
    else
      sums[kept++] = sum;
  }
  sums.resize(kept);
}

void NgramCounts::add(std::span<const int32_t> context, std::span<const NextToken> next) {
  for (size_t order = 1; order <= std::min(kOrders, context.size()); ++order) {
    std::vector<Sum>& sums = sums_[order - 1];
    const uint64_t key = key_of(context.last(order));
    sums.push_back({key, -1, 1.0f});
    for (const NextToken& n : next) sums.push_back({key, n.token, n.probability});
    if (sums.size() < compacted_[order - 1] + kCompactAt) continue;
    compact(sums);
    compacted_[order - 1] = sums.size();
  }
  ++rows_;
}

namespace {

// A row that a table could have.
struct Choice {
  size_t order;
  size_t row;
  float gain_per_byte;
};

// Place of a token among those of a table, which ascend; -1: it has none.
int16_t number_of(const std::vector<int32_t>& tokens, int32_t token) {
  const auto it = std::lower_bound(tokens.begin(), tokens.end(), token);
  return it == tokens.end() || *it != token ? int16_t{-1}
                                            : static_cast<int16_t>(it - tokens.begin());
}

int64_t row_bytes(size_t order, int32_t best) {
  return static_cast<int64_t>(order * sizeof(int16_t)) + best * 3;
}

}  // namespace

NgramTable::Parts NgramCounts::table(const NgramTableOptions& options) {
  if (rows_ == 0) fail(ErrorCode::kInvalidArgument, "an n-gram table needs texts; there were none");
  if (options.best < 1 || options.best > NgramTable::kMostNext)
    fail(ErrorCode::kInvalidArgument, "an n-gram table can have 1 to {} next tokens, not {}",
         NgramTable::kMostNext, options.best);
  std::vector<Rows> rows;
  rows.reserve(kOrders);
  for (size_t order = 1; order <= kOrders; ++order) {
    compact(sums_[order - 1]);
    rows.emplace_back(sums_[order - 1], order == 1 ? nullptr : &rows.back());
  }
  std::vector<Choice> choices;
  for (size_t order = 1; order <= kOrders; ++order) {
    const std::vector<Row>& all = rows[order - 1].all();
    const auto bytes = static_cast<float>(row_bytes(order, options.best));
    for (size_t i = 0; i < all.size(); ++i) choices.push_back({order, i, all[i].gain / bytes});
  }
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
    return a.gain_per_byte > b.gain_per_byte;
  });
  int64_t left = options.bytes;
  std::array<std::vector<const Row*>, kOrders> chosen;
  for (const Choice& choice : choices) {
    left -= row_bytes(choice.order, options.best);
    if (left < 0) break;
    chosen[choice.order - 1].push_back(&rows[choice.order - 1].all()[choice.row]);
  }
  return parts(chosen, options.best);
}

// Numbers the tokens that the rows name, the most frequent if there are too many; numbers rise with
// the ids, so that contexts sort alike by both.
NgramTable::Parts NgramCounts::parts(std::array<std::vector<const Row*>, kOrders>& rows,
                                     int32_t best) {
  std::map<int32_t, float> used;
  for (size_t order = 1; order <= kOrders; ++order) {
    for (const Row* row : rows[order - 1]) {
      for (size_t i = 0; i < order; ++i)
        used[static_cast<int32_t>(row->context >> (i * kTokenBits) & kTokenMask)] += row->count;
      for (const NextToken& next :
           std::span(row->next).first(std::min(row->next.size(), static_cast<size_t>(best))))
        used[next.token] += next.probability * row->count;
    }
  }
  NgramTable::Parts parts;
  parts.best = best;
  std::vector<std::pair<float, int32_t>> by_use;
  by_use.reserve(used.size());
  for (const auto& [token, use] : used) by_use.emplace_back(-use, token);
  std::sort(by_use.begin(), by_use.end());
  by_use.resize(std::min(by_use.size(), static_cast<size_t>(NgramTable::kMostTokens)));
  for (const auto& [use, token] : by_use) parts.tokens.push_back(token);
  std::sort(parts.tokens.begin(), parts.tokens.end());
  for (size_t order = 1; order <= kOrders; ++order) {
    std::sort(rows[order - 1].begin(), rows[order - 1].end(),
              [](const Row* a, const Row* b) { return a->context < b->context; });
    for (const Row* row : rows[order - 1]) append(parts, order, *row);
  }
  return parts;
}

void NgramCounts::append(NgramTable::Parts& parts, size_t order, const Row& row) {
  NgramTable::Order& out = parts.orders[order - 1];
  std::array<int16_t, kOrders> context{};
  for (size_t i = 0; i < order; ++i) {
    context[i] =
        number_of(parts.tokens,
                  static_cast<int32_t>(row.context >> ((order - 1 - i) * kTokenBits) & kTokenMask));
    if (context[i] < 0) return;
  }
  out.contexts.insert(out.contexts.end(), context.begin(),
                      context.begin() + static_cast<int64_t>(order));
  int32_t written = 0;
  for (const NextToken& next : row.next) {
    if (written == parts.best) break;
    const int16_t number = number_of(parts.tokens, next.token);
    if (number < 0) continue;
    out.next.push_back(number);
    out.probabilities.push_back(
        static_cast<uint8_t>(std::clamp(next.probability * 256.0f, 0.0f, 255.0f)));
    ++written;
  }
  for (; written < parts.best; ++written) {
    out.next.push_back(-1);
    out.probabilities.push_back(0);
  }
}

}  // namespace clover
