// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "measure/questions.h"
#include "tokenizer/tokenizer.h"

namespace clover {

// A question as the model reads it.
struct Prompt {
  std::string category;
  std::vector<TokenId> ids;
};

// The questions' first turns in the model's chat template, as they are where it has none; ordered
// by category.
std::vector<Prompt> render_prompts(const std::vector<Question>& questions,
                                   const Tokenizer& tokenizer);

}  // namespace clover
