// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace clover {

// The commit that this program was built from, as `git describe` names it; "unknown" outside a
// repository. Defined in a file that the build writes.
std::string_view build_commit();

}  // namespace clover
