// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "tokenizer/tokenizer.h"

namespace clover {

// The tokenizer that a GGUF file's "tokenizer.*" keys describe: "gpt2" (byte-level BPE) or "llama"
// (SentencePiece BPE). Errors as load_tokenizer.
std::unique_ptr<Tokenizer> gguf_tokenizer(const Checkpoint& checkpoint);

}  // namespace clover
