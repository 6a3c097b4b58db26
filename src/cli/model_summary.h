// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/json.h"
#include "checkpoint/checkpoint.h"

namespace clover {

// What is in a model's files: {file, model, tokenizer, memory}. A part that cannot be read (an
// architecture that Clover does not run, no tokenizer) is {"error": why}.
Json model_summary(const Checkpoint& checkpoint);

// [{name, type, shape, bytes}] of all tensors, in file order.
Json tensor_list(const Checkpoint& checkpoint);

// {key: value} of all GGUF metadata, or {file name: document} for the JSON files of a folder.
// Arrays longer than `max_items` (0: no bound) are cut, with a last element that says so.
Json metadata_object(const Checkpoint& checkpoint, size_t max_items);

// A number of bytes for people: "98.1 MiB".
std::string format_bytes(double bytes);

}  // namespace clover
