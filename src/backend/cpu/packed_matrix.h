// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/aligned.h"
#include "backend/cpu/kernels/kernels.h"
#include "base/thread_pool.h"

namespace clover {

// A weight matrix repacked into panels of 16 outputs (see PanelView). Stacked parts become
// segments, since their types may differ (k-quant files mix types inside a layer).
class PackedMatrix : public Matrix {
 public:
  struct Segment {
    PanelView view;
    int64_t first_row = 0;  // output column of the segment's first row
    std::shared_ptr<uint8_t> memory;
    int64_t bytes = 0;
  };

  // Error(kUnsupported) for element types or shapes that cannot be packed.
  static std::shared_ptr<const PackedMatrix> pack(std::span<const WeightView> parts,
                                                  ThreadPool& pool, WeightMemory& memory);

  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return cols_; }
  int64_t bytes() const override;
  std::string type_name() const override { return type_name_; }
  std::span<const Segment> segments() const { return segments_; }
  // Multiply-accumulates per row of input, for benchmarks.
  int64_t macs() const { return rows_ * cols_; }
  // Any segment whose inputs have to be quantised, any that takes them as floats.
  bool wants_quantised() const;
  bool wants_floats() const;
  // Row `row` in float32.
  void unpack_row(int64_t row, float* out) const;

 private:
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  std::string type_name_;
  std::vector<Segment> segments_;
};

}  // namespace clover
