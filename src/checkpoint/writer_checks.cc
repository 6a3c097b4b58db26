// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/writer_checks.h"

#include <string_view>
#include <unordered_set>

#include "base/error.h"
#include "checkpoint/names.h"

namespace clover {

void check_tensors(std::span<const TensorInfo> tensors) {
  std::unordered_set<std::string_view> names;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name.empty()) fail(ErrorCode::kInvalidArgument, "a tensor to write has no name");
    if (!names.insert(tensor.name).second) {
      fail(ErrorCode::kInvalidArgument, "two tensors to write are called {}",
           quote_name(tensor.name));
    }
    int64_t elements = 1;
    bool possible = true;
    for (const int64_t size : tensor.shape) {
      possible = possible && size >= 0 && !__builtin_mul_overflow(elements, size, &elements);
    }
    const auto size = possible ? byte_size(tensor.type, elements) : std::nullopt;
    if (!size || static_cast<size_t>(*size) != tensor.data.size()) {
      fail(ErrorCode::kInvalidArgument, "tensor {} has {} bytes, which do not fit its shape and {}",
           quote_name(tensor.name), tensor.data.size(), dtype_name(tensor.type));
    }
  }
}

}  // namespace clover
