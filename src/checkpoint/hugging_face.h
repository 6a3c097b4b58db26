// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"

namespace clover {

// Opens a folder with model.safetensors, or with model.safetensors.index.json and its shards.
// Shards must be plain file names in the folder; a shard that is a symbolic link must stay in it,
// except for the links of the Hugging Face cache (snapshots/REVISION/FILE -> ../../blobs/HASH).
// Errors as open_checkpoint.
std::unique_ptr<Checkpoint> open_hugging_face_folder(const std::string& path);

}  // namespace clover
