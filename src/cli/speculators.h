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

// Stands for the package that ships for the model, if there is one, and ngram+recycle.
inline constexpr const char* kDefaultSpeculators = "default";

// What -s and --tree ask for.
struct SpeculationOptions {
  std::string speculators = kDefaultSpeculators;
  std::string tree = "auto";
};

void add_speculation_options(CLI::App& verb, SpeculationOptions& options);  // -s --tree

// The names in `text`, which "+" joins.
std::vector<std::string> split_speculators(const std::string& text);

// How a package's matrices may be held while running: the names of options, and their types.
std::vector<std::string> package_weight_names();
DType package_weights(const std::string& name);

// Error(kInvalidArgument) naming --out when something else than a package is where one is to be.
void check_package_out(const std::string& out);

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

// `text`, or what kDefaultSpeculators stands for: packages are looked for in the folder
// "speculators" beside the model's file (in a model's folder as well) and in models/speculators of
// the source tree that the program was built in; the first by name that was made for this very
// model counts.
std::string resolve_speculators(const std::string& text, const SpeculatorTarget& target);

// The speculators that `text` names, joined by "+": "ngram", "recycle", the folder of a package, or
// a smaller model with the same vocabulary; "none": an empty list. Error(kInvalidArgument) for an
// unknown name, one given twice, or one that does not fit the target.
std::vector<SpeculatorFactory> open_speculators(const std::string& text,
                                                const SpeculatorTarget& target);

}  // namespace clover
