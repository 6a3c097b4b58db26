// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/json.h"
#include "model/model.h"

namespace clover {

struct KernelBenchOptions {
  std::vector<int64_t> rows = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
  int64_t repeats = 5;
  int64_t context = 128;  // tokens already in the KV cache of a timed step
};

// The cost of 1 … n rows over the model's own weights, against one row and against the machine:
//   {"peak": {"read_gbytes_per_s", "int8_gmac_per_s", "float_gmac_per_s"},
//    "cost": [{"type", "rows", "ms" {median, min, max, runs}, "ratio_to_one_row",
//              "gbytes_per_s", "gmac_per_s", "share_of_read_peak", "share_of_mac_peak"}]}
// `type` is a weight type of the file (all its matrices once), "matmuls" (all matrices of a step)
// or "step" (a whole forward pass over a chain of that many rows, logits for each, behind `context`
// tokens). Row counts and the peak are interleaved within a repeat; ratios and shares are
// medians over the repeats' own. Error(kInvalidArgument) for impossible rows.
Json bench_kernels(const Model& model, const KernelBenchOptions& options);

}  // namespace clover
