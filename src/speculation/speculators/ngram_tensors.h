// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "speculation/speculators/ngram_table.h"

namespace clover {

// The tensors that hold a package's n-gram table (docs/speculator-package.md).
bool is_ngram_tensor(std::string_view name);

// Errors: kNotFound for a missing tensor, kCorrupt for one of another type or shape. What the
// numbers say is NgramTable's to check.
NgramTable::Parts read_ngram_table(const Checkpoint& package);

// Adds the tensors of a table, which look into it.
void append_ngram_tensors(const NgramTable::Parts& table, std::vector<TensorInfo>& tensors);

}  // namespace clover
