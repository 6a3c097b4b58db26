// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backend/backend.h"
#include "model/model.h"
#include "speculation/speculators/clover_network.h"
#include "speculation/speculators/eagle_network.h"
#include "speculation/speculators/package_config.h"

namespace clover {

// A matrix of a package, or neighbouring columns of it.
struct WeightPart {
  std::string name;
  int64_t first = 0;
  int64_t cols = 0;  // 0: all
};

// Where the tensors of a package come from when they become a backend's weights: a file that is
// served, or parameters that are trained.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // The parts' rows one below the other.
  virtual MatrixPtr matrix(std::span<const WeightPart> parts) const = 0;
  // The named tensors one behind the other, then `zeros` zeros.
  virtual VectorPtr vector(std::span<const std::string> names, int64_t zeros) const = 0;
};

// How the tensors of package_layout() make up the weights that networks work with.
std::shared_ptr<const CloverWeights> assemble_clover(const PackageConfig& config,
                                                     const Model& target,
                                                     const WeightSource& source, DraftHead head);
std::shared_ptr<const EagleWeights> assemble_eagle(const PackageConfig& config, const Model& target,
                                                   const WeightSource& source, DraftHead head);

}  // namespace clover
