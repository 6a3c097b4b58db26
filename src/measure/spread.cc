// SPDX-License-Identifier: Apache-2.0
#include "measure/spread.h"

#include <algorithm>
#include <cmath>

namespace clover {

double quantile(std::vector<double> values, double p) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const double at = p * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(std::floor(at));
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

Json spread_json(const std::vector<double>& runs) {
  if (runs.empty()) return nullptr;
  return {{"median", quantile(runs, 0.5)},
          {"min", *std::min_element(runs.begin(), runs.end())},
          {"max", *std::max_element(runs.begin(), runs.end())},
          {"runs", runs}};
}

Json tail_json(const std::vector<double>& values) {
  if (values.empty()) return nullptr;
  return {{"p50", quantile(values, 0.5)},
          {"p95", quantile(values, 0.95)},
          {"p99", quantile(values, 0.99)}};
}

}  // namespace clover
