// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "backend/backend.h"

namespace clover {

class CpuVector : public Vector {
 public:
  explicit CpuVector(std::vector<float> values) : values_(std::move(values)) {}
  int64_t size() const override { return static_cast<int64_t>(values_.size()); }
  const float* data() const { return values_.data(); }

 private:
  std::vector<float> values_;
};

inline const float* values_of(const Vector& v) { return static_cast<const CpuVector&>(v).data(); }

}  // namespace clover
