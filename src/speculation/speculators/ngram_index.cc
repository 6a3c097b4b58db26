// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/ngram_index.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "speculation/speculators/probability_bin.h"

namespace clover {
namespace {

// A chosen text can make many contexts share a slot; beyond this many the oldest is forgotten.
constexpr size_t kMaxProbes = 64;
constexpr size_t kFirstSlots = 64;

// How many occurrences the estimate from the next shorter context is worth, by level: long contexts
// overrule it at once.
constexpr std::array<float, NgramIndex::kLevels> kShorterWeight = {4.0f, 2.0f, 1.2f, 0.8f, 0.6f,
                                                                   0.5f, 0.4f, 0.3f, 0.2f, 0.1f};
// Weight of an occurrence against the next later one.
constexpr float kDecay = 0.9f;

uint64_t hash_of(std::span<const int32_t> context) {
  uint64_t hash = context.size();
  for (const int32_t token : context)
    hash = (hash ^ static_cast<uint32_t>(token)) * 0x9e3779b97f4a7c15ULL + (hash >> 29);
  return mix64(hash);
}

// Weighted counts of the tokens that followed a context at one level.
struct Tally {
  int32_t token;
  float estimate = 0.0f;  // from the levels so far
  float weight = 0.0f;    // at the level in work
  int32_t level = 0;
};

Tally& tally_of(std::vector<Tally>& tallies, int32_t token) {
  for (Tally& tally : tallies)
    if (tally.token == token) return tally;
  return tallies.emplace_back(Tally{.token = token});
}

// Takes one level into the estimates: counts of this level, filled up with the shorter ones'.
void close_level(std::vector<Tally>& tallies, int32_t level, float total) {
  if (total == 0.0f) return;
  const float shorter = kShorterWeight[static_cast<size_t>(level)];
  for (Tally& tally : tallies) {
    if (tally.weight > 0.0f) tally.level = level;
    tally.estimate = (tally.weight + shorter * tally.estimate) / (total + shorter);
    tally.weight = 0.0f;
  }
}

}  // namespace

bool NgramIndex::same(int32_t place, std::span<const int32_t> context) const {
  const int32_t* begin = tokens_.data() + place - context.size();
  return std::equal(context.begin(), context.end(), begin);
}

size_t NgramIndex::slot(const Order& order, uint64_t hash, std::span<const int32_t> context) const {
  const size_t mask = order.slots.size() - 1;
  for (size_t i = 0; i < kMaxProbes; ++i) {
    const size_t at = (hash + i) & mask;
    if (order.slots[at] < 0 || same(order.slots[at], context)) return at;
  }
  return hash & mask;
}

void NgramIndex::grow(Order& order, int32_t length) {
  const std::vector<int32_t> old = std::move(order.slots);
  order.slots.assign(std::max(kFirstSlots, old.size() * 2), -1);
  const size_t n = static_cast<size_t>(length);
  for (const int32_t place : old) {
    if (place < 0) continue;
    const std::span context(tokens_.data() + place - length, n);
    order.slots[slot(order, hash_of(context), context)] = place;
  }
}

void NgramIndex::append(int32_t token) {
  if (tokens_.size() >= static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    fail(ErrorCode::kExhausted, "the n-gram index holds no more than {} tokens", tokens_.size());
  const auto place = static_cast<int32_t>(tokens_.size());
  for (size_t k = 0; k < kOrders.size(); ++k) {
    Order& order = orders_[k];
    order.previous.push_back(-1);
    if (place < kOrders[k]) continue;
    if (order.slots.size() < 2 * static_cast<size_t>(order.used + 1)) grow(order, kOrders[k]);
    const std::span context = std::span(tokens_).last(static_cast<size_t>(kOrders[k]));
    int32_t& latest = order.slots[slot(order, hash_of(context), context)];
    if (latest < 0) {
      ++order.used;
    } else if (same(latest, context)) {
      order.previous.back() = latest;
    }
    latest = place;
  }
  tokens_.push_back(token);
}

void NgramIndex::occurrences(int32_t order, std::span<const int32_t> context,
                             std::vector<int32_t>& out) const {
  out.clear();
  const Order& index = orders_[static_cast<size_t>(order)];
  const auto length = static_cast<size_t>(kOrders[static_cast<size_t>(order)]);
  if (context.size() < length || index.slots.empty()) return;
  const std::span key = context.last(length);
  int32_t place = index.slots[slot(index, hash_of(key), key)];
  if (place < 0 || !same(place, key)) return;
  for (; place >= 0 && out.size() < kOccurrences;
       place = index.previous[static_cast<size_t>(place)])
    out.push_back(place);
}

void NgramIndex::guesses(std::span<const int32_t> context, std::vector<Guess>& out) const {
  out.clear();
  std::vector<int32_t> places;
  std::vector<Tally> tallies;
  for (size_t level = 0; level < kLengths.size(); ++level) {
    const auto length = static_cast<size_t>(kLengths[level]);
    if (context.size() < length) break;
    if (level < kOrders.size()) {
      occurrences(static_cast<int32_t>(level), context, places);
    } else {
      std::erase_if(places, [&](int32_t place) {
        return static_cast<size_t>(place) < length || !same(place, context.last(length));
      });
    }
    if (places.empty()) break;
    float weight = 1.0f;
    float total = 0.0f;
    for (const int32_t place : places) {
      tally_of(tallies, tokens_[static_cast<size_t>(place)]).weight += weight;
      total += weight;
      weight *= kDecay;
    }
    close_level(tallies, static_cast<int32_t>(level), total);
  }
  for (const Tally& tally : tallies)
    out.push_back({tally.token, open_probability(tally.estimate), tally.level});
  std::sort(out.begin(), out.end(), [](const Guess& a, const Guess& b) {
    return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
  });
}

int64_t NgramIndex::bytes() const {
  size_t values = tokens_.capacity();
  for (const Order& order : orders_) values += order.slots.capacity() + order.previous.capacity();
  return static_cast<int64_t>(values * sizeof(int32_t));
}

}  // namespace clover
