// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "constraint/json_grammar.h"

namespace clover {

// Sets the height of every rule, which may refer to each other in rings: those that no value can
// have get kNoHeight. Choices must be flat.
void find_heights(std::vector<ValueRule>& rules);

}  // namespace clover
