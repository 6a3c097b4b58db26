// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "train/trainer.h"

namespace clover {

// What a new run begins with: the package of --init, or an untrained one of the recipe, whose draft
// vocabulary is chosen from the data. Errors: those of read_package, kInvalidArgument for one
// without a head.
Package first_package(const TrainOptions& options, const TrainTarget& target,
                      const TrainingData& data,
                      const std::function<void(const std::string&)>& note);

}  // namespace clover
