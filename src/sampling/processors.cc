// SPDX-License-Identifier: Apache-2.0
#include "sampling/processors.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "sampling/approx.h"
#include "sampling/lanes.h"
#include "sampling/noise.h"

namespace clover {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr float kGreatest = std::numeric_limits<float>::max();

// A finite value for any x but an excluded one, so that arithmetic on logits never excludes or
// forces a token by accident.
float keep_finite(float x) { return std::clamp(x, kLowest, kGreatest); }

}  // namespace

void apply_repetition_penalty(std::span<float> logits, std::span<const TokenCount> counts,
                              float penalty) {
  for (const TokenCount& c : counts) {
    float& x = logits[c.id];
    if (x == kExcluded) continue;
    x = keep_finite(x > 0.0f ? x / penalty : x * penalty);
  }
}

void apply_output_penalties(std::span<float> logits, std::span<const TokenCount> counts,
                            float presence, float frequency) {
  for (const TokenCount& c : counts) {
    float& x = logits[c.id];
    if (c.output == 0 || x == kExcluded) continue;
    x = keep_finite(x - (presence + frequency * static_cast<float>(c.output)));
  }
}

void apply_logit_bias(std::span<float> logits, std::span<const std::pair<int32_t, float>> bias) {
  for (const auto& [id, amount] : bias) {
    float& x = logits[id];
    if (std::isinf(amount)) {
      x = amount;
    } else if (x != kExcluded) {
      x = keep_finite(x + amount);
    }
  }
}

void bar_tokens(std::span<float> logits, std::span<const int32_t> ids) {
  for (const int32_t id : ids) logits[id] = kExcluded;
}

void apply_allowed_mask(std::span<float> logits, std::span<const uint64_t> allowed) {
  const int64_t size = static_cast<int64_t>(logits.size());
  for (int64_t first = 0; first < size; first += 64) {
    const int64_t count = std::min<int64_t>(64, size - first);
    uint64_t excluded = ~allowed[first / 64] & (~uint64_t{0} >> (64 - count));
    if (excluded == ~uint64_t{0}) {
      std::fill_n(logits.begin() + first, 64, kExcluded);
      continue;
    }
    for (; excluded != 0; excluded &= excluded - 1)
      logits[first + std::countr_zero(excluded)] = kExcluded;
  }
}

void resolve_forced(std::span<float> logits, float max) {
  if (max != std::numeric_limits<float>::infinity()) return;
  for (float& x : logits) x = x == max ? 0.0f : kExcluded;
}

void apply_temperature(std::span<const float> logits, std::span<const float> block_max, float max,
                       float temperature, TemperedRow& row) {
  // Shifting before scaling keeps every value finite or excluded and the greatest exactly 0. Both
  // steps round monotonically, so the block maxima stay exact.
  const float inverse = 1.0f / std::max(temperature, 1e-30f);
  row.size = static_cast<int64_t>(logits.size());
  row.values.resize(row_blocks(row.size) * kRowBlock);
  row.block_max.resize(block_max.size());
  for (int64_t i = 0; i < row.size; ++i) row.values[i] = (logits[i] - max) * inverse;
  std::fill(row.values.begin() + row.size, row.values.end(), kExcluded);
  for (size_t b = 0; b < block_max.size(); ++b) row.block_max[b] = (block_max[b] - max) * inverse;
}

Cut top_k_cut(const TemperedRow& row, int64_t k) {
  thread_local std::vector<RankedToken> candidates;
  gather_top(row.values, row.block_max, k, candidates);
  if (static_cast<int64_t>(candidates.size()) < k) return {};  // fewer can be drawn at all
  const auto last = candidates.begin() + (k - 1);
  std::nth_element(candidates.begin(), last, candidates.end());
  return {last->value, last->id};
}

namespace {

// The probability weights exp(value) of the tokens that a cut keeps, block by block; blocks that
// the cut drops whole are left untouched and must not be read.
struct Weights {
  std::vector<float> values;
  double total = 0.0;
};

struct Tail {
  double weight = 0.0;
  int64_t tokens = 0;
};

// Weight and number of the tokens with value ≥ bound in one block.
void add_tail(const float* z, const float* w, float bound, Tail& tail) {
  const Float4 bounds = {bound, bound, bound, bound};
  Float4 sum[2] = {};
  Int4 count = {0, 0, 0, 0};
  for (int64_t j = 0; j < kRowBlock; j += 8) {
    for (int64_t i = 0; i < 2; ++i) {
      const Int4 above = load4(z + j + 4 * i) >= bounds;
      sum[i] += above ? load4(w + j + 4 * i) : Float4{};
      count -= above;
    }
  }
  tail.weight += sum_lanes(sum[0] + sum[1]);
  tail.tokens += count[0] + count[1] + count[2] + count[3];
}

Tail tail_above(const TemperedRow& row, const Weights& weights, float bound) {
  Tail tail;
  for (size_t b = 0; b < row.block_max.size(); ++b) {
    if (row.block_max[b] < bound) continue;
    const int64_t first = static_cast<int64_t>(b) * kRowBlock;
    add_tail(&row.values[first], &weights.values[first], bound, tail);
  }
  return tail;
}

void compute_weights(const TemperedRow& row, Cut cut, Weights& weights) {
  weights.values.resize(row.values.size());
  for (size_t b = 0; b < row.block_max.size(); ++b) {
    if (row.block_max[b] < cut.value) continue;
    const int64_t first = static_cast<int64_t>(b) * kRowBlock;
    const float* z = &row.values[first];
    float* w = &weights.values[first];
    for (int64_t i = 0; i < kRowBlock; ++i) w[i] = approx_exp(z[i]);
    // Ties at the cut that it drops; only a block that holds the cut's value can have them.
    for (int64_t i = 0; cut.value > kLowest && i < kRowBlock; ++i) {
      if (!cut.keeps(z[i], first + i)) w[i] = 0.0f;
    }
  }
}

// Whether 16 values have one with low ≤ value < high.
bool any_between(const float* z, float low, float high) {
  const Float4 lows = {low, low, low, low};
  const Float4 highs = {high, high, high, high};
  Int4 hit = {0, 0, 0, 0};
  for (int64_t i = 0; i < 16; i += 4) {
    const Float4 v = load4(z + i);
    hit |= (v >= lows) & (v < highs);
  }
  return any_lane(hit);
}

// The kept tokens with low ≤ value < high.
void gather_between(const TemperedRow& row, Cut cut, float low, float high,
                    std::vector<RankedToken>& out) {
  out.clear();
  const int64_t padded = static_cast<int64_t>(row.values.size());
  for (int64_t first = 0; first < padded; first += 16) {
    if (row.block_max[first / kRowBlock] < low) continue;
    if (!any_between(&row.values[first], low, high)) continue;
    for (int64_t i = first; i < first + 16; ++i) {
      const float z = row.values[i];
      if (z >= low && z < high && cut.keeps(z, i)) out.push_back({z, static_cast<int32_t>(i)});
    }
  }
}

}  // namespace

Cut top_p_cut(const TemperedRow& row, Cut cut, float top_p) {
  constexpr float kNoWeight = -88.0f;        // approx_exp is 0 below
  constexpr int64_t kSortable = 512;         // few enough to sort
  constexpr int kSteps = 24;                 // more cannot help: only equal values are left
  constexpr double kTolerance = 1.0 - 1e-6;  // see the header
  thread_local Weights weights;
  thread_local std::vector<RankedToken> candidates;
  compute_weights(row, cut, weights);
  // Bisection for the value at which the tail reaches top_p: low's tail does, high's does not.
  const double total = tail_above(row, weights, std::max(cut.value, kNoWeight)).weight;
  const double target = static_cast<double>(top_p) * total * kTolerance;
  // All tokens below this bound together weigh less than what top_p leaves out.
  const double spare = (total - target) / static_cast<double>(row.size);
  float low = std::max({cut.value, kNoWeight, approx_log(static_cast<float>(spare)) - 1e-3f});
  float high = 1.0f;
  Tail at_low = tail_above(row, weights, low);
  Tail at_high;
  for (int step = 0; step < kSteps && at_low.tokens - at_high.tokens > kSortable; ++step) {
    const float middle = 0.5f * (low + high);
    if (!(middle > low && middle < high)) break;
    const Tail tail = tail_above(row, weights, middle);
    const bool reached = tail.weight >= target;
    (reached ? low : high) = middle;
    (reached ? at_low : at_high) = tail;
  }
  gather_between(row, cut, low, high, candidates);
  std::sort(candidates.begin(), candidates.end());
  double sum = at_high.weight;
  for (const RankedToken& c : candidates) {
    sum += weights.values[c.id];
    if (sum >= target) return {c.value, c.id};
  }
  if (candidates.empty()) return cut;
  return {candidates.back().value, candidates.back().id};  // short of the target by rounding only
}

Cut min_p_cut(Cut cut, float min_p) {
  const float bound = approx_log(min_p) - 1e-6f;
  return bound > cut.value ? Cut{bound, std::numeric_limits<int32_t>::max()} : cut;
}

namespace {

struct Winner {
  float score;
  int32_t id;
  void challenge(float other_score, int32_t other_id) {
    if (other_score > score || (other_score == score && other_id < id)) {
      score = other_score;
      id = other_id;
    }
  }
};

}  // namespace

int32_t draw_gumbel(const TemperedRow& row, Cut cut, uint64_t key) {
  // A token is looked at only if its value plus a bound on its noise can reach the best score so
  // far: first the greatest noise there is, then the greatest of its block. The slack covers
  // rounding, so leaving a token out never changes the winner.
  constexpr float kSlack = 1e-3f;
  static_assert(kRowBlock == kNoiseBlock);
  const int32_t likeliest = first_equal(row.values, row.block_max, 0.0f);
  Winner best{gumbel_of_token(key, static_cast<uint32_t>(likeliest)), likeliest};
  for (size_t b = 0; b < row.block_max.size(); ++b) {
    const float top = row.block_max[b];
    if (top < cut.value || top + (kMaxGumbel + kSlack) < best.score) continue;
    const BlockNoise noise(key, static_cast<uint32_t>(b));
    const float most = noise.greatest() + kSlack;
    if (top + most < best.score) continue;
    const int64_t first = static_cast<int64_t>(b) * kRowBlock;
    for (int64_t i = 0; i < kRowBlock; ++i) {
      const float z = row.values[first + i];
      if (z + most < best.score || !cut.keeps(z, first + i)) continue;
      best.challenge(z + noise.of_lane(key, static_cast<uint32_t>(i)),
                     static_cast<int32_t>(first + i));
    }
  }
  return best.id;
}

}  // namespace clover
