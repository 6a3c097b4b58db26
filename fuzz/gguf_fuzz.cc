// SPDX-License-Identifier: Apache-2.0
// Any bytes either read as a GGUF file whose tensors lie inside them, or are an Error.
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "checkpoint/gguf_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const clover::GgufFile file = clover::read_gguf(bytes, "input");
    for (const clover::TensorInfo& tensor : file.tensors) {
      if (tensor.data.data() < bytes.data()) std::abort();
      if (tensor.data.data() + tensor.data.size() > bytes.data() + size) std::abort();
    }
  } catch (const clover::Error&) {
  }
  return 0;
}
