// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "tokenizer/gguf_tokenizer.h"
#include "tokenizer/hf_settings.h"
#include "tokenizer/sentencepiece_tokenizer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_json.h"

namespace clover {

std::unique_ptr<Tokenizer> load_tokenizer(const Checkpoint& checkpoint) {
  if (checkpoint.format() == Checkpoint::Format::kGguf) return gguf_tokenizer(checkpoint);
  const HfSettings settings = read_hf_settings(checkpoint);
  if (const Json* document = checkpoint.document("tokenizer.json")) {
    return tokenizer_from_json(*document, settings);
  }
  if (const auto path = checkpoint.side_file("tokenizer.model")) {
    return sentencepiece_tokenizer(*path, settings);
  }
  fail(ErrorCode::kNotFound, "{} has no tokenizer: neither tokenizer.json nor tokenizer.model.",
       checkpoint.path());
}

}  // namespace clover
