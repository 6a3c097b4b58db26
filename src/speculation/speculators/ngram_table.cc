// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/ngram_table.h"

#include <algorithm>

#include "base/error.h"
#include "speculation/speculators/probability_bin.h"

namespace clover {
namespace {

// What is left for tokens that a context's row does not name, of what a shorter context says.
constexpr float kShorter = 0.25f;

float probability_of(uint8_t step) { return (static_cast<float>(step) + 0.5f) / 256.0f; }

void check_numbers(std::span<const int16_t> numbers, int64_t tokens, int16_t least,
                   const std::string& name, size_t order) {
  for (const int16_t number : numbers) {
    if (number < least || number >= tokens)
      fail(ErrorCode::kCorrupt, "{}: n-gram table: order {} names token number {} of {}", name,
           order, number, tokens);
  }
}

void check_order(const NgramTable::Parts& parts, size_t order, const std::string& name) {
  const NgramTable::Order& rows = parts.orders[order - 1];
  const size_t contexts = rows.contexts.size() / order;
  const size_t entries = contexts * static_cast<size_t>(parts.best);
  if (rows.contexts.size() % order != 0 || rows.next.size() != entries ||
      rows.probabilities.size() != entries)
    fail(ErrorCode::kCorrupt, "{}: n-gram table: the parts of order {} differ in length", name,
         order);
  const auto tokens = std::ssize(parts.tokens);
  check_numbers(rows.contexts, tokens, 0, name, order);
  check_numbers(rows.next, tokens, -1, name, order);
  const std::span<const int16_t> all(rows.contexts);
  for (size_t i = 1; i < contexts; ++i) {
    const auto before = all.subspan((i - 1) * order, order);
    const auto here = all.subspan(i * order, order);
    if (!std::lexicographical_compare(before.begin(), before.end(), here.begin(), here.end()))
      fail(ErrorCode::kCorrupt, "{}: n-gram table: context {} of order {} is out of order", name, i,
           order);
  }
}

}  // namespace

NgramTable::NgramTable(Parts parts, int64_t vocab, const std::string& name)
    : parts_(std::move(parts)) {
  if (parts_.best < 1 || parts_.best > kMostNext)
    fail(ErrorCode::kCorrupt, "{}: n-gram table: {} next tokens of a context, allowed are 1 to {}",
         name, parts_.best, kMostNext);
  if (std::ssize(parts_.tokens) > kMostTokens)
    fail(ErrorCode::kCorrupt, "{}: n-gram table: {} tokens, allowed are {}", name,
         parts_.tokens.size(), kMostTokens);
  number_.assign(static_cast<size_t>(vocab), -1);
  for (size_t i = 0; i < parts_.tokens.size(); ++i) {
    const int32_t token = parts_.tokens[i];
    if (token < 0 || token >= vocab || number_[static_cast<size_t>(token)] >= 0)
      fail(ErrorCode::kCorrupt,
           "{}: n-gram table: token {} is outside the vocabulary of {} or given twice", name, token,
           vocab);
    number_[static_cast<size_t>(token)] = static_cast<int16_t>(i);
  }
  for (size_t order = 1; order <= kOrders; ++order) {
    check_order(parts_, order, name);
    const Order& rows = parts_.orders[order - 1];
    std::vector<int32_t>& first = first_[order - 1];
    first.assign(parts_.tokens.size() + 1, 0);
    for (size_t i = 0; i < rows.contexts.size(); i += order)
      ++first[static_cast<size_t>(rows.contexts[i]) + 1];
    for (size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
  }
}

int64_t NgramTable::find(size_t order, std::span<const int16_t> reversed) const {
  const auto last = static_cast<size_t>(reversed[0]);
  const int16_t* contexts = parts_.orders[order - 1].contexts.data();
  int64_t low = first_[order - 1][last], high = first_[order - 1][last + 1];
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    const int16_t* at = contexts + middle * static_cast<int64_t>(order);
    const auto compared = std::lexicographical_compare_three_way(
        at, at + order, reversed.begin(), reversed.begin() + static_cast<int64_t>(order));
    if (compared == 0) return middle;
    (compared < 0 ? low : high) = compared < 0 ? middle + 1 : middle;
  }
  return -1;
}

void NgramTable::guesses(std::span<const int32_t> context, int32_t width,
                         std::vector<Guess>& out) const {
  out.clear();
  std::array<int16_t, kOrders> reversed{};
  size_t known = 0;
  for (; known < std::min(kOrders, context.size()); ++known) {
    const int32_t token = context[context.size() - 1 - known];
    if (token < 0 || static_cast<size_t>(token) >= number_.size()) break;
    reversed[known] = number_[static_cast<size_t>(token)];
    if (reversed[known] < 0) break;
  }
  float scale = 1.0f;
  const auto best = static_cast<size_t>(parts_.best);
  for (size_t order = known; order > 0; --order) {
    const int64_t row = find(order, reversed);
    if (row < 0) continue;
    const Order& rows = parts_.orders[order - 1];
    for (size_t i = static_cast<size_t>(row) * best; i < (static_cast<size_t>(row) + 1) * best;
         ++i) {
      if (rows.next[i] < 0) break;
      const int32_t token = parts_.tokens[static_cast<size_t>(rows.next[i])];
      if (std::any_of(out.begin(), out.end(), [&](const Guess& g) { return g.token == token; }))
        continue;
      out.push_back({token, open_probability(scale * probability_of(rows.probabilities[i])),
                     static_cast<int32_t>(order)});
    }
    scale *= kShorter;
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Guess& a, const Guess& b) { return a.probability > b.probability; });
  out.resize(std::min(out.size(), static_cast<size_t>(std::max(width, 0))));
}

int64_t NgramTable::bytes() const {
  size_t bytes = parts_.tokens.size() * sizeof(int32_t) + number_.size() * sizeof(int16_t);
  for (size_t i = 0; i < kOrders; ++i) {
    const Order& rows = parts_.orders[i];
    bytes += (rows.contexts.size() + rows.next.size()) * sizeof(int16_t) +
             rows.probabilities.size() + first_[i].size() * sizeof(int32_t);
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace clover
