// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"

namespace clover {

// Two programs are built from the same verbs: `clover`, and `clover-torch` with libtorch linked in
// (cli/torch/ and cli/without_torch/ hold what differs). Whether this is the latter.
bool torch_is_linked();

// Replaces the running program by the `clover-torch` that lies beside it, with the same arguments.
// Does not return. Error(kUnsupported) when there is none, since the build had no libtorch.
[[noreturn]] void restart_with_torch();

// The libtorch backend on a device. Error(kUnsupported) where libtorch is not linked, or the device
// is not there.
std::shared_ptr<Backend> make_linked_torch_backend(const std::string& device, int threads);

}  // namespace clover
