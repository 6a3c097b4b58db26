// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <vector>

#include "base/random.h"
#include "sampling/sampling.h"

namespace clover {

// The processors written a second time, plainly and in double, as the tests' reference: the
// probability of every token, by a full sort. `margin` reports how close a boundary decision was
// (in probability share), so that a test may leave out cases that rounding decides.
struct ReferenceDistribution {
  std::vector<double> probabilities;  // [vocab]
  double margin = 1.0;
};

inline std::vector<double> reference_logits(const SamplingParams& p, std::span<const float> logits,
                                            std::span<const int32_t> prompt,
                                            std::span<const int32_t> output,
                                            std::span<const int32_t> eos) {
  std::vector<double> x(logits.begin(), logits.end());
  std::map<int32_t, int> in_output;
  std::map<int32_t, int> anywhere;
  for (const int32_t id : prompt) ++anywhere[id];
  for (const int32_t id : output) {
    ++anywhere[id];
    ++in_output[id];
  }
  for (const auto& [id, n] : anywhere) {
    x[id] = x[id] > 0 ? x[id] / p.repetition_penalty : x[id] * p.repetition_penalty;
  }
  for (const auto& [id, n] : in_output) x[id] -= p.presence_penalty + p.frequency_penalty * n;
  for (const auto& [id, bias] : p.logit_bias) x[id] += bias;
  if (static_cast<int64_t>(output.size()) < p.min_tokens) {
    for (const int32_t id : eos) x[id] = -std::numeric_limits<double>::infinity();
  }
  return x;
}

// Softmax of the logits / temperature, then top-k, top-p and min-p; temperature > 0.
inline ReferenceDistribution reference_distribution(const SamplingParams& p,
                                                    const std::vector<double>& logits) {
  const size_t n = logits.size();
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> weight(n);
  for (size_t i = 0; i < n; ++i) weight[i] = std::exp((logits[i] - max) / p.temperature);
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  ReferenceDistribution out;
  size_t kept = n;
  if (p.top_k > 0) kept = std::min(kept, static_cast<size_t>(p.top_k));
  if (p.top_p < 1.0f) {
    double total = 0.0;
    for (size_t i = 0; i < kept; ++i) total += weight[order[i]];
    double sum = 0.0;
    size_t count = 0;
    while (count < kept && sum < p.top_p * total * (1.0 - 1e-6)) {
      sum += weight[order[count++]];
      out.margin = std::min(out.margin, std::abs(sum / total - p.top_p * (1.0 - 1e-6)));
    }
    kept = count;
  }
  for (size_t i = 0; i < n && p.min_p > 0.0f; ++i) {
    out.margin = std::min(out.margin, std::abs(weight[i] / p.min_p - 1.0));
  }
  while (kept > 1 && weight[order[kept - 1]] < p.min_p * (1.0 - 1e-6)) --kept;
  out.probabilities.assign(n, 0.0);
  double total = 0.0;
  for (size_t i = 0; i < kept; ++i) total += weight[order[i]];
  for (size_t i = 0; i < kept; ++i) out.probabilities[order[i]] = weight[order[i]] / total;
  return out;
}

// The value that a chi-square variable of `degrees` exceeds with probability 1e-6 (Wilson and
// Hilferty's approximation). The tests' draws are fixed by their seeds, so a passing test stays so.
inline double chi_square_limit(double degrees) {
  const double z = 4.753;  // normal quantile of 1 - 1e-6
  const double c = 2.0 / (9.0 * degrees);
  return degrees * std::pow(1.0 - c + z * std::sqrt(c), 3.0);
}

// Standard normal numbers (a sum of 12 uniforms) from a stream.
inline std::vector<float> normal_row(uint64_t stream, int64_t size, double scale) {
  std::vector<float> row(size);
  for (int64_t i = 0; i < size; ++i) {
    double sum = -6.0;
    for (uint64_t k = 0; k < 12; ++k) sum += random_uniform(stream_key(stream, i), k);
    row[i] = static_cast<float>(scale * sum);
  }
  return row;
}

}  // namespace clover
