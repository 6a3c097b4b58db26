// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "constraint/json_grammar.h"

namespace clover {

// What a schema says of a number: JSON numbers, or null.
struct NumberBounds {
  const Json* minimum = nullptr;
  const Json* maximum = nullptr;
  const Json* above = nullptr;  // exclusiveMinimum
  const Json* below = nullptr;  // exclusiveMaximum
};

// Makes `rule` the numbers within the bounds. Whole numbers have 15 digits at most, or the 17 that
// a bound may have. Numbers with a bound have six digits behind the point, and are at most 9e9 in
// size. kNever where no number fits.
void bound_number(ValueRule& rule, bool whole, const NumberBounds& bounds);

}  // namespace clover
