// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "speculation/speculators/ngram_table.h"
#include "speculation/speculators/package_config.h"
#include "speculation/speculators/speculator.h"

namespace clover {

// A speculator outside any backend, as init makes it and training writes it.
struct PackageTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};
struct Package {
  PackageConfig config;
  std::vector<PackageTensor> tensors;      // those of package_layout(), perhaps lm_head.weight
  std::vector<int32_t> d2t;                // token of every draft id; empty: the whole vocabulary
  std::optional<NgramTable::Parts> table;  // with config.ngram_table
};

// Whether `path` is a folder whose config.json names a speculator. Never an Error.
bool is_package(const std::string& path);

// The configuration of a package. Errors as parse_package_config and open_checkpoint.
PackageConfig read_package_config(const std::string& path);

// Opens a package for a model that has been loaded from `checkpoint` (which must still be open, and
// is not needed afterwards). It gives a speculator or two: a head, if it has one, and then an
// n-gram table, if it has one. The factories share the weights among all engines that they serve;
// they make speculators for this very model only. Errors: kInvalidArgument when the package was
// made for another model (every differing field is named), kNotFound (missing tensor), kCorrupt
// (wrong shape or type, a tensor that has no place, values that are not finite, ids in d2t outside
// the vocabulary or given twice), kUnsupported.
std::vector<SpeculatorFactory> open_package(const std::string& path, const Checkpoint& checkpoint,
                                            const std::shared_ptr<const Model>& target);

// Reads a package for the model in `checkpoint` outside any backend, to train it further. Errors as
// open_package.
Package read_package(const std::string& path, const Checkpoint& checkpoint);

// Writes a package folder that appears under its name only when it is complete and on the disk. A
// package that is there already is replaced in one step; anything else there is
// Error(kInvalidArgument). Matrices are stored as BF16 or F32 where the configuration runs them so,
// and otherwise in 8 bits (int8_matrix.h); vectors as F32.
void write_package(const std::string& path, const Package& package);

}  // namespace clover
