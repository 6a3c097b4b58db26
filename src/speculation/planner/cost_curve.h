// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace clover {

// Milliseconds of a target pass by its number of rows: measured at a few points, refined by every
// pass that follows, linear in between and beyond.
class CostCurve {
 public:
  // An unmeasured curve: a pass of `rows` costs as much as the slowest model would have it, which
  // is rows times one (no draft pays).
  CostCurve();
  // Measures with `pass(rows)`, which runs a pass and returns its milliseconds. Every point is
  // measured twice and the better taken, unless a pass takes longer than a tenth of a second.
  static CostCurve measure(const std::function<double(int64_t)>& pass);
  // For tests and simulations: the given points, rows ascending.
  static CostCurve of(std::vector<int64_t> rows, std::vector<double> ms);

  double ms(int64_t rows) const;
  // A pass of `rows` rows (≥ 1) took `ms`.
  void refine(int64_t rows, double ms);

 private:
  size_t segment(int64_t rows) const;
  std::vector<int64_t> rows_;  // ascending, at least two
  std::vector<double> ms_;
};

}  // namespace clover
