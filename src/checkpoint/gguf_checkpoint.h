// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"

namespace clover {

// Opens a GGUF file; when it is one of several splits (key split.count), all of them, whichever was
// named. Splits are called PREFIX-00001-of-0000N.gguf. Errors as open_checkpoint; a missing split
// is kNotFound and named.
std::unique_ptr<Checkpoint> open_gguf(const std::string& path);

}  // namespace clover
