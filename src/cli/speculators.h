// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/options.h"
#include "speculation/planner/tree_policy.h"
#include "speculation/speculators/speculator.h"
#include "tokenizer/tokenizer.h"

namespace clover {

// What -s and --tree ask for.
struct SpeculationOptions {
  std::string speculators = "ngram+recycle";
  std::string tree = "auto";
};

void add_speculation_options(CLI::App& verb, SpeculationOptions& options);  // -s --tree

// Checks what can be checked before a model is loaded: Error(kInvalidArgument) for a name given
// twice or together with none, Error(kNotFound) for one that is neither known nor a file.
void check_speculators(const std::string& text);

// What speculators are opened for.
struct SpeculatorTarget {
  std::string path;  // of the model
  std::shared_ptr<const Model> model;
  const Tokenizer* tokenizer = nullptr;
  std::shared_ptr<Backend> backend;  // that a draft model runs on
};

// The speculators that `text` names, joined by "+": "ngram", "recycle", the folder of a package, or
// a smaller model with the same vocabulary; "none": an empty list. Error(kInvalidArgument) for an
// unknown name, one given twice, or one that does not fit the target.
std::vector<SpeculatorFactory> open_speculators(const std::string& text,
                                                const SpeculatorTarget& target);

}  // namespace clover
