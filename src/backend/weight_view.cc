// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"
#include "tensor/quant.h"

namespace clover {

std::vector<float> dequantised(std::span<const WeightView> parts) {
  std::vector<float> values;
  for (const WeightView& part : parts) {
    const size_t at = values.size();
    values.resize(at + static_cast<size_t>(part.rows * part.cols));
    dequantise(part.type, part.data, part.rows * part.cols, values.data() + at);
  }
  return values;
}

}  // namespace clover
