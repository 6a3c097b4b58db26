// SPDX-License-Identifier: Apache-2.0
#include "measure/prompts.h"

#include <algorithm>
#include <optional>

#include "tokenizer/chat_template.h"

namespace clover {

std::vector<Prompt> render_prompts(const std::vector<Question>& questions,
                                   const Tokenizer& tokenizer) {
  std::optional<ChatTemplate> chat;
  if (const auto source = tokenizer.chat_template()) chat = ChatTemplate::parse(*source);
  std::vector<Prompt> prompts;
  for (const Question& question : questions) {
    std::vector<TextSpan> text{{question.turns.front(), false}};
    if (chat) {
      ChatRenderOptions render_options;
      render_options.special_tokens = tokenizer.template_tokens();
      const Json messages = {{{"role", "user"}, {"content", question.turns.front()}}};
      text = chat->render(messages, render_options);
    }
    prompts.push_back({question.category, tokenizer.encode(text, {})});
  }
  // Groups of one category keep a category's figures its own.
  std::stable_sort(prompts.begin(), prompts.end(),
                   [](const Prompt& a, const Prompt& b) { return a.category < b.category; });
  return prompts;
}

}  // namespace clover
