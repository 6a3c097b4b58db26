// SPDX-License-Identifier: Apache-2.0
#include "train/torch/parameter_source.h"

#include <vector>

#include "backend/torch/torch_values.h"
#include "base/error.h"

namespace clover {
namespace {

at::Tensor joined(const std::vector<at::Tensor>& parts) {
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

}  // namespace

const at::Tensor& ParameterSource::at_name(const std::string& name) const {
  const auto found = parameters_.find(name);
  if (found == parameters_.end())
    fail(ErrorCode::kNotFound, "the package has no tensor '{}'", name);
  return found->second;
}

MatrixPtr ParameterSource::matrix(std::span<const WeightPart> parts) const {
  std::vector<at::Tensor> rows;
  for (const WeightPart& part : parts) {
    const at::Tensor& all = at_name(part.name);
    rows.push_back(part.cols == 0 ? all : all.narrow(1, part.first, part.cols));
  }
  return std::make_shared<TorchMatrix>(joined(rows), "F32");
}

VectorPtr ParameterSource::vector(std::span<const std::string> names, int64_t zeros) const {
  std::vector<at::Tensor> parts;
  for (const std::string& name : names) parts.push_back(at_name(name));
  if (zeros > 0) parts.push_back(at::zeros({zeros}, options_));
  return std::make_shared<TorchVector>(joined(parts));
}

}  // namespace clover
