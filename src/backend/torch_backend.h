// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"

namespace clover {

// In what the libtorch backend computes. kF32: everything in float32. kBF16: products take their
// inputs in bfloat16 and add in float32, everything else is float32. kF64: everything in double
// precision, for checking gradients.
struct TorchOptions {
  std::string device = "cpu";  // "cpu", "cuda" or "cuda:N"
  int threads = 0;             // 0: the cores that the cgroup grants; the number holds process-wide
  DType type = DType::kF32;
};

// The operations over ATen, with gradients wherever a weight asks for them. Unlike the native
// backend it does not promise that a row's bits are independent of the other rows, since the
// library's products do not. Defined only where libtorch is linked in. Errors: kInvalidArgument
// (device or type), kUnsupported (a device that this libtorch or this machine lacks).
std::shared_ptr<Backend> make_torch_backend(const TorchOptions& options);

// Whether products of bfloat16 are faster than those of float32 on a device: every CUDA device's
// are, and those of processors with instructions for it.
bool torch_prefers_bf16(const std::string& device);

}  // namespace clover
