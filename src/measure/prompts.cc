// SPDX-License-Identifier: Apache-2.0
#include "measure/prompts.h"

#include <algorithm>

#include "base/json.h"

namespace clover {

PromptWriter::PromptWriter(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  if (const auto source = tokenizer.chat_template())
    chat_ = std::make_unique<const ChatTemplate>(ChatTemplate::parse(*source));
}

PromptWriter::~PromptWriter() = default;

std::vector<TokenId> PromptWriter::write(std::span<const std::string> turns,
                                         std::span<const std::string> answers) const {
  Json messages = Json::array();
  std::string plain;
  for (size_t i = 0; i <= answers.size(); ++i) {
    messages.push_back({{"role", "user"}, {"content", turns[i]}});
    plain += turns[i];
    if (i == answers.size()) break;
    messages.push_back({{"role", "assistant"}, {"content", answers[i]}});
    plain += "\n" + answers[i] + "\n";
  }
  if (!chat_) return tokenizer_.encode(std::vector<TextSpan>{{plain, false}}, {});
  ChatRenderOptions options;
  options.special_tokens = tokenizer_.template_tokens();
  return tokenizer_.encode(chat_->render(messages, options), {});
}

std::vector<Prompt> render_prompts(const std::vector<Question>& questions,
                                   const Tokenizer& tokenizer) {
  const PromptWriter writer(tokenizer);
  std::vector<Prompt> prompts;
  prompts.reserve(questions.size());
  for (const Question& question : questions)
    prompts.push_back({question.category, writer.write(question.turns, {}), question.turns});
  // Groups of one category keep a category's figures its own.
  std::stable_sort(prompts.begin(), prompts.end(),
                   [](const Prompt& a, const Prompt& b) { return a.category < b.category; });
  return prompts;
}

}  // namespace clover
