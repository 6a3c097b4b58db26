// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <span>
#include <string>

#include "speculation/speculators/weight_source.h"

namespace clover {

// Weights of the torch backend that are made of parameters by operations that carry gradients back.
class ParameterSource : public WeightSource {
 public:
  // `options`: device and type of vectors.
  ParameterSource(const std::map<std::string, at::Tensor>& parameters,
                  const at::TensorOptions& options)
      : parameters_(parameters), options_(options) {}
  MatrixPtr matrix(std::span<const WeightPart> parts) const override;
  VectorPtr vector(std::span<const std::string> names, int64_t zeros) const override;

 private:
  const at::Tensor& at_name(const std::string& name) const;

  const std::map<std::string, at::Tensor>& parameters_;
  at::TensorOptions options_;
};

}  // namespace clover
