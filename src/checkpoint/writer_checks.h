// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "checkpoint/checkpoint.h"

namespace clover {

// Refuses tensors without name, with a name given twice, or whose data does not fit their shape and
// type: Error(kInvalidArgument).
void check_tensors(std::span<const TensorInfo> tensors);

}  // namespace clover
