// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/json.h"

namespace clover {

// The p-quantile of values, 0 ≤ p ≤ 1, by linear interpolation between order statistics (numpy's
// default). 0 for no values.
double quantile(std::vector<double> values, double p);

// {"median", "min", "max", "runs"} of repeated measurements.
Json spread_json(const std::vector<double>& runs);

// {"p50", "p95", "p99"} of many values.
Json tail_json(const std::vector<double>& values);

}  // namespace clover
