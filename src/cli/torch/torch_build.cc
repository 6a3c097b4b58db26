// SPDX-License-Identifier: Apache-2.0
#include "cli/torch_build.h"

#include "backend/torch_backend.h"

namespace clover {

bool torch_is_linked() { return true; }

std::shared_ptr<Backend> make_linked_torch_backend(const std::string& device, int threads) {
  return make_torch_backend({.device = device, .threads = threads});
}

}  // namespace clover
