// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"

namespace clover {

// What a GGUF file means by its "tokenizer.ggml.pre" name.
struct GgufSplit {
  PreTokenizer pre_tokenizer;
  Normalizer normalizer;
  bool ignore_merges = false;
  bool add_bos = false;  // unless the file says otherwise
};

// Error(kUnsupported) listing the known names when `name` is none of them.
GgufSplit gguf_split(std::string_view name);

}  // namespace clover
