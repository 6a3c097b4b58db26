// SPDX-License-Identifier: Apache-2.0
// Any bytes either read as a safetensors file whose tensors exactly cover its data, or are an
// Error.
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const clover::SafetensorsFile file = clover::read_safetensors(bytes, "input");
    size_t covered = 0;
    for (const clover::TensorInfo& tensor : file.tensors) {
      if (tensor.data.data() < bytes.data()) std::abort();
      if (tensor.data.data() + tensor.data.size() > bytes.data() + size) std::abort();
      covered += tensor.data.size();
    }
    if (covered > size) std::abort();
  } catch (const clover::Error&) {
  }
  return 0;
}
