// SPDX-License-Identifier: Apache-2.0
#include "cli/torch_build.h"

namespace clover {

bool torch_is_linked() { return false; }

}  // namespace clover
