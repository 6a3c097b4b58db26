// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "speculation/planner/tree_policy.h"
#include "speculation/speculators/speculator.h"

namespace clover {

// What -s and --tree ask for.
struct SpeculationOptions {
  std::string speculators = "ngram+recycle";
  std::string tree = "auto";
};

void add_speculation_options(CLI::App& verb, SpeculationOptions& options);  // -s --tree

// The speculators that `text` names, joined by "+"; "none": an empty list.
// Error(kInvalidArgument) for an unknown name, or one given twice.
std::vector<SpeculatorFactory> open_speculators(const std::string& text);

}  // namespace clover
