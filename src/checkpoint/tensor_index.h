// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace clover {

// Tensors by name. Built once over a vector that no longer changes.
class TensorIndex {
 public:
  TensorIndex() = default;
  // Error(kCorrupt) when two tensors share a name; `path` names the model in it.
  TensorIndex(const std::vector<TensorInfo>& tensors, const std::string& path);

  // Null when there is no tensor of that name.
  const TensorInfo* find(std::string_view name) const;

 private:
  std::unordered_map<std::string_view, const TensorInfo*> by_name_;
};

}  // namespace clover
