// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tensor_index.h"

#include "base/error.h"
#include "checkpoint/names.h"

namespace clover {

TensorIndex::TensorIndex(const std::vector<TensorInfo>& tensors, const std::string& path) {
  by_name_.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) {
    if (!by_name_.emplace(tensor.name, &tensor).second) {
      fail(ErrorCode::kCorrupt, "{}: tensor {} occurs in two files of the model", path,
           quote_name(tensor.name));
    }
  }
}

const TensorInfo* TensorIndex::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

}  // namespace clover
