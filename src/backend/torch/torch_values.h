// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"

namespace clover {

// Runs something of libtorch; what it throws becomes an Error that names `what` was done.
template <typename Body>
auto with_torch(const char* what, const Body& body) {
  try {
    return body();
  } catch (const Error&) {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    fail(ErrorCode::kExhausted, "libtorch has no memory left for {}", what);
  } catch (const c10::Error& error) {
    fail(ErrorCode::kInvalidArgument, "libtorch, {}: {}", what, error.what_without_backtrace());
  } catch (const std::exception& error) {
    fail(ErrorCode::kInvalidArgument, "libtorch, {}: {}", what, error.what());
  }
}

// The handle that the operations pass around, and the values behind it: [rows, cols] of any float
// type on any device, with their gradient's history.
Tensor wrap(at::Tensor values);
const at::Tensor& unwrap(const Tensor& tensor);

// Weights as a tensor; one that depends on parameters carries gradients to them.
class TorchMatrix : public Matrix {
 public:
  TorchMatrix(at::Tensor values, std::string type_name)
      : values_(std::move(values)), type_name_(std::move(type_name)) {}
  int64_t rows() const override { return values_.size(0); }
  int64_t cols() const override { return values_.size(1); }
  int64_t bytes() const override { return static_cast<int64_t>(values_.nbytes()); }
  std::string type_name() const override { return type_name_; }
  const at::Tensor& values() const { return values_; }

 private:
  at::Tensor values_;
  std::string type_name_;
};

class TorchVector : public Vector {
 public:
  explicit TorchVector(at::Tensor values) : values_(std::move(values)) {}
  int64_t size() const override { return values_.size(0); }
  const at::Tensor& values() const { return values_; }

 private:
  at::Tensor values_;
};

inline const at::Tensor& values_of(const Matrix& m) {
  return static_cast<const TorchMatrix&>(m).values();
}
inline const at::Tensor& torch_values_of(const Vector& v) {
  return static_cast<const TorchVector&>(v).values();
}

// Keys and values of a layer, [tokens, G*d] each. While gradients are recorded, storing makes a new
// tensor, so that earlier reads keep theirs.
class TorchKvStore : public KvStore {
 public:
  TorchKvStore(const KvShape& shape, const at::TensorOptions& options);
  const KvShape& shape() const override { return shape_; }
  int64_t bytes() const override;
  void move(std::span<const Move> moves) override;

  // Rounds to the store's type and back.
  at::Tensor rounded(const at::Tensor& values) const;
  // `addresses` [R] of tokens.
  void store(int64_t layer, const at::Tensor& addresses, const at::Tensor& k, const at::Tensor& v);
  std::pair<at::Tensor, at::Tensor> load(int64_t layer, const at::Tensor& addresses) const;

 private:
  KvShape shape_;
  at::TensorOptions options_;
  std::vector<at::Tensor> keys_;
  std::vector<at::Tensor> values_;
};

}  // namespace clover
