// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tokenizer/token_table.h"

namespace clover {

// Adds the control tokens that, by their well-known texts, end a turn or a text. Many files name
// only one of them as EOS although the model was trained to stop at another.
void add_known_end_tokens(const TokenTable& table, std::vector<TokenId>& eos);

}  // namespace clover
