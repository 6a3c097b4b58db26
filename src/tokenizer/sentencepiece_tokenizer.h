// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "tokenizer/hf_settings.h"
#include "tokenizer/tokenizer.h"

namespace clover {

// A SentencePiece model file (BPE or unigram), run by the reference library, with the added tokens
// and the BOS and EOS rules of its folder. Errors: kCorrupt when the file is no model.
std::unique_ptr<Tokenizer> sentencepiece_tokenizer(const std::string& path,
                                                   const HfSettings& settings);

}  // namespace clover
