// SPDX-License-Identifier: Apache-2.0
#include "speculation/planner/cost_curve.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace clover {
namespace {

constexpr double kSlowPassMs = 100.0;
// How fast a point follows new measurements, and what is taken for a disturbance: a pass so many
// times slower than expected (another process ran) moves the curve no further than that.
constexpr double kRate = 0.05;
constexpr double kOutlier = 1.5;

}  // namespace

CostCurve::CostCurve() : rows_{1, 64}, ms_{1.0, 64.0} {}

CostCurve CostCurve::of(std::vector<int64_t> rows, std::vector<double> ms) {
  if (rows.size() < 2 || rows.size() != ms.size() || !std::is_sorted(rows.begin(), rows.end()))
    fail(ErrorCode::kInvalidArgument, "a cost curve needs two points in ascending order");
  CostCurve curve;
  curve.rows_ = std::move(rows);
  curve.ms_ = std::move(ms);
  return curve;
}

CostCurve CostCurve::measure(const std::function<double(int64_t)>& pass) {
  std::vector<double> ms;
  const std::vector<int64_t> rows{1, 2, 4, 8, 16};
  pass(1);  // warms memory and threads
  for (const int64_t count : rows) {
    double best = pass(count);
    if (best < kSlowPassMs) best = std::min(best, pass(count));
    // More rows never cost less; a measurement that says so was disturbed.
    ms.push_back(ms.empty() ? best : std::max(best, ms.back()));
  }
  return of(rows, ms);
}

size_t CostCurve::segment(int64_t rows) const {
  size_t i = 0;
  while (i + 2 < rows_.size() && rows >= rows_[i + 1]) ++i;
  return i;
}

double CostCurve::ms(int64_t rows) const {
  const size_t i = segment(rows);
  const double slope = (ms_[i + 1] - ms_[i]) / static_cast<double>(rows_[i + 1] - rows_[i]);
  return ms_[i] + slope * static_cast<double>(rows - rows_[i]);
}

void CostCurve::refine(int64_t rows, double ms) {
  const double expected = this->ms(rows);
  const double error = std::clamp(ms, expected / kOutlier, expected * kOutlier) - expected;
  const size_t i = segment(rows);
  const double share = std::clamp(
      static_cast<double>(rows - rows_[i]) / static_cast<double>(rows_[i + 1] - rows_[i]), 0.0,
      1.0);
  ms_[i] += kRate * error * (1.0 - share);
  ms_[i + 1] += kRate * error * share;
  // A longer context raises all points alike, but only those in use are seen; the others must not
  // stay behind and look cheap.
  for (size_t k = 1; k < ms_.size(); ++k) ms_[k] = std::max(ms_[k], ms_[k - 1]);
}

}  // namespace clover
