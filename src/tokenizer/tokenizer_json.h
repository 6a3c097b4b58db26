// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/json.h"
#include "tokenizer/hf_settings.h"
#include "tokenizer/tokenizer.h"

namespace clover {

// The tokenizer that a tokenizer.json document describes (model kind BPE). Errors: kCorrupt for
// broken documents, kUnsupported naming the construct.
std::unique_ptr<Tokenizer> tokenizer_from_json(const Json& document, const HfSettings& settings);

}  // namespace clover
