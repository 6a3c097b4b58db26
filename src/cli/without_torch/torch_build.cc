// SPDX-License-Identifier: Apache-2.0
#include "cli/torch_build.h"

#include "base/error.h"

namespace clover {

bool torch_is_linked() { return false; }

std::shared_ptr<Backend> make_linked_torch_backend(const std::string& device, int) {
  fail(ErrorCode::kUnsupported, "device {}: this program is not linked with libtorch", device);
}

}  // namespace clover
