// SPDX-License-Identifier: Apache-2.0
#include "constraint/number_bounds.h"

#include <algorithm>
#include <cmath>

namespace clover {
namespace {

constexpr int64_t kMostWhole = 999'999'999'999'999;
constexpr int64_t kFractions = 1'000'000;
constexpr int64_t kMostScaled = 9'000'000'000'000'000;  // below 2^53: exact as a double

// The smallest number of steps of 1 / scale that is at least `bound` (more than it, when
// exclusive), as readers of the text compare: by the nearest double. Beyond `most` it is one more.
int64_t steps_from(const Json& bound, int64_t scale, int64_t most, bool exclusive) {
  if (scale == 1 && bound.is_number_integer()) {
    const bool huge = bound.is_number_unsigned() && bound.get<uint64_t>() > uint64_t{1} << 62;
    const int64_t steps = huge ? most + 1 : bound.get<int64_t>();
    return std::clamp(steps, -most - 1, most) + (exclusive || steps > most ? 1 : 0);
  }
  const double limit = bound.get<double>();
  const auto factor = static_cast<double>(scale);
  if (limit * factor > static_cast<double>(most)) return most + 1;
  if (limit * factor < -static_cast<double>(most)) return -most;
  auto steps = static_cast<int64_t>(std::floor(limit * factor)) - 2;
  const auto falls_short = [&] {
    const double value = static_cast<double>(steps) / factor;
    return exclusive ? value <= limit : value < limit;
  };
  while (falls_short()) ++steps;
  return steps;
}

// The same from above.
int64_t steps_to(const Json& bound, int64_t scale, int64_t most, bool exclusive) {
  if (bound.is_number_unsigned() && bound.get<uint64_t>() > uint64_t{1} << 62) return most;
  constexpr int64_t kHuge = int64_t{1} << 62;  // its negative exists
  const Json mirrored = bound.is_number_integer()
                            ? Json(-std::clamp(bound.get<int64_t>(), -kHuge, kHuge))
                            : Json(-bound.get<double>());
  return -steps_from(mirrored, scale, most, exclusive);
}

}  // namespace

void bound_number(ValueRule& rule, bool whole, const NumberBounds& bounds) {
  const bool bounded = bounds.minimum != nullptr || bounds.maximum != nullptr ||
                       bounds.above != nullptr || bounds.below != nullptr;
  rule.scale = 0;
  if (!whole && !bounded) return;
  rule.scale = whole ? 1 : kFractions;
  const int64_t most = whole ? kMostSize - 1 : kMostScaled;
  const int64_t usual = whole ? kMostWhole : kMostScaled;
  rule.low = -most;
  rule.high = most;
  if (bounds.minimum)
    rule.low = std::max(rule.low, steps_from(*bounds.minimum, rule.scale, most, false));
  if (bounds.above)
    rule.low = std::max(rule.low, steps_from(*bounds.above, rule.scale, most, true));
  if (bounds.maximum)
    rule.high = std::min(rule.high, steps_to(*bounds.maximum, rule.scale, most, false));
  if (bounds.below)
    rule.high = std::min(rule.high, steps_to(*bounds.below, rule.scale, most, true));
  // A side without a bound ends at the usual size, unless the other side is beyond it.
  if (bounds.minimum == nullptr && bounds.above == nullptr && rule.high >= -usual)
    rule.low = -usual;
  if (bounds.maximum == nullptr && bounds.below == nullptr && rule.low <= usual) rule.high = usual;
  if (rule.low > rule.high) rule.kind = ValueRule::Kind::kNever;
}

}  // namespace clover
