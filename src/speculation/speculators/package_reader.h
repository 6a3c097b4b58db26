// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "model/tensor_map.h"
#include "speculation/speculators/package_layout.h"
#include "speculation/speculators/weight_source.h"

namespace clover {

// The model that a package is opened for.
struct PackageTarget {
  const Model& model;
  const ModelTensors& tensors;
};

// The tensors of an untrusted package folder.
class PackageFiles {
 public:
  // Checks names, shapes and types of all tensors. Errors as open_package. All must outlive it.
  PackageFiles(const Checkpoint& files, const PackageConfig& config, const ModelConfig& target);

  const std::string& path() const { return files_.path(); }
  const TensorInfo& at(std::string_view name) const { return files_.at(name); }
  // A tensor's values, all of them finite.
  std::vector<float> values(std::string_view name) const;
  // Whether the package brings rows of the LM head of its own, as tensor kOwnHead.
  bool has_own_head() const { return files_.find(kOwnHead) != nullptr; }
  // Tokens of the draft ids; empty: the whole vocabulary.
  std::vector<int32_t> draft_tokens() const;

  static constexpr std::string_view kOwnHead = "lm_head.weight";

 private:
  // One that holds weights: its shape, its type, and what belongs to it.
  void check_weights(const TensorInfo& tensor, const std::vector<int64_t>& shape) const;

  const Checkpoint& files_;
  const PackageConfig& config_;
  int64_t vocab_;
};

// Turns the tensors of a package into weights of a backend.
class PackageReader : private WeightSource {
 public:
  PackageReader(const PackageFiles& files, const PackageConfig& config, const PackageTarget& target)
      : files_(files), config_(config), target_(target), backend_(target.model.backend()) {}

  std::shared_ptr<const CloverWeights> clover() const;
  std::shared_ptr<const EagleWeights> eagle() const;

 private:
  MatrixPtr matrix(std::span<const WeightPart> parts) const override;
  VectorPtr vector(std::span<const std::string> names, int64_t zeros) const override;
  DraftHead head() const;

  const PackageFiles& files_;
  const PackageConfig& config_;
  PackageTarget target_;
  Backend& backend_;
};

}  // namespace clover
