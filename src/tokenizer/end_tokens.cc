// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/end_tokens.h"

namespace clover {

void add_known_end_tokens(const TokenTable& table, std::vector<TokenId>& eos) {
  for (const char* text : {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>",
                           "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>"}) {
    const auto id = table.find(text);
    if (id && table.at(*id).control) eos.push_back(*id);
  }
}

}  // namespace clover
