// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "model/weights.h"
#include "speculation/speculators/clover_network.h"
#include "speculation/speculators/eagle.h"
#include "speculation/speculators/package_layout.h"

namespace clover {

// The model that a package is opened for.
struct PackageTarget {
  const Model& model;
  const ModelTensors& tensors;
};

// Turns the tensors of an untrusted package into weights of a backend.
class PackageReader {
 public:
  // Checks names, shapes and types of all tensors first. Errors as open_package. `files` must
  // outlive the reader.
  PackageReader(const Checkpoint& files, const PackageConfig& config, const PackageTarget& target);

  std::shared_ptr<const CloverWeights> clover() const;
  std::shared_ptr<const EagleWeights> eagle() const;

 private:
  // Rows of float32 values that become a matrix, or part of one.
  struct Rows {
    std::vector<float> values;
    int64_t cols = 0;
  };
  const TensorInfo& at(std::string_view name) const;
  std::vector<float> values(std::string_view name) const;
  Rows rows(std::string_view name) const;
  VectorPtr vector(std::string_view name) const;
  VectorPtr vector_if(bool present, const std::string& name) const;
  VectorPtr to_vector(std::span<const float> values) const;
  MatrixPtr matrix(std::string_view name) const;
  MatrixPtr to_matrix(const Rows& rows, std::string_view name) const;
  LayerWeights layer(const std::string& prefix, const LayerParts& parts) const;
  CloverStep step(int64_t index) const;
  DraftHead head() const;
  std::vector<int32_t> draft_ids() const;

  const Checkpoint& files_;
  const PackageConfig& config_;
  PackageTarget target_;
  Backend& backend_;
};

}  // namespace clover
