// SPDX-License-Identifier: Apache-2.0
#include "sampling/logprobs.h"

#include <algorithm>
#include <cmath>

#include "sampling/approx.h"
#include "sampling/lanes.h"

namespace clover {
namespace {

float sum_of_exp(const float* x, float max) {
  float weights[kRowBlock];
  for (int64_t i = 0; i < kRowBlock; ++i) weights[i] = approx_exp(x[i] - max);
  Float4 sum[2] = {};
  for (int64_t j = 0; j < kRowBlock; j += 8) {
    sum[0] += load4(weights + j);
    sum[1] += load4(weights + j + 4);
  }
  return sum_lanes(sum[0] + sum[1]);
}

}  // namespace

double log_sum_exp(std::span<const float> logits, std::span<const float> block_max, float max) {
  const int64_t size = static_cast<int64_t>(logits.size());
  const int64_t whole = size / kRowBlock;
  double sum = 0.0;
  for (int64_t b = 0; b < whole; ++b) {
    if (block_max[b] - max < -87.0f) continue;  // adds exactly 0
    sum += sum_of_exp(logits.data() + b * kRowBlock, max);
  }
  for (int64_t i = whole * kRowBlock; i < size; ++i) sum += approx_exp(logits[i] - max);
  return static_cast<double>(max) + std::log(sum);
}

void fill_logprobs(std::span<const float> logits, std::span<const float> block_max, float max,
                   int n, Draw& draw) {
  const double normaliser = log_sum_exp(logits, block_max, max);
  const auto logprob = [&](float x) { return static_cast<float>(x - normaliser); };
  draw.logprob = logprob(logits[draw.id]);
  std::vector<RankedToken> candidates;
  gather_top(logits, block_max, n, candidates);
  const size_t count = std::min(candidates.size(), static_cast<size_t>(std::max(n, 0)));
  std::partial_sort(candidates.begin(), candidates.begin() + count, candidates.end());
  draw.top.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    draw.top.push_back({candidates[i].id, logprob(candidates[i].value)});
  }
}

}  // namespace clover
