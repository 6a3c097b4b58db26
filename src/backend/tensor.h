// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace clover {

// Float32 activations of a forward pass: `rows` rows of `cols` contiguous values, rows `stride`
// values apart (a column range of a wider tensor is a view). A cheap handle: copies share the
// values, which live as long as any of them.
class Tensor {
 public:
  Tensor() = default;
  Tensor(int64_t rows, int64_t cols, int64_t stride, float* data,
         std::shared_ptr<void> storage = nullptr)
      : rows_(rows), cols_(cols), stride_(stride), data_(data), storage_(std::move(storage)) {}

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  int64_t stride() const { return stride_; }
  bool empty() const { return rows_ == 0; }
  // Host address of the first value; null on backends whose values are not in host memory.
  float* data() const { return data_; }
  float* row(int64_t r) const { return data_ + r * stride_; }
  const std::shared_ptr<void>& storage() const { return storage_; }

 private:
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  int64_t stride_ = 0;
  float* data_ = nullptr;
  std::shared_ptr<void> storage_;
};

}  // namespace clover
