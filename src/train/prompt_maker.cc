// SPDX-License-Identifier: Apache-2.0
#include "train/prompt_maker.h"

#include "base/error.h"

namespace clover {
namespace {

constexpr int64_t kNow = 1735689600;  // 2025-01-01 00:00

}  // namespace

PromptMaker::PromptMaker(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  if (auto source = tokenizer.chat_template())
    template_.emplace(ChatTemplate::parse(*std::move(source)));
}

std::vector<TextSpan> PromptMaker::render(std::span<const std::string> turns,
                                          std::span<const std::string> answers) const {
  Json messages = Json::array();
  for (size_t i = 0; i < turns.size(); ++i) {
    messages.push_back({{"role", "user"}, {"content", turns[i]}});
    if (i < answers.size()) messages.push_back({{"role", "assistant"}, {"content", answers[i]}});
  }
  ChatRenderOptions options;
  options.special_tokens = tokenizer_.template_tokens();
  options.now = kNow;
  return template_->render(messages, options);
}

std::vector<TokenId> PromptMaker::prompt(std::span<const std::string> turns,
                                         std::span<const std::string> answers) const {
  if (template_) return tokenizer_.encode(render(turns, answers), EncodeOptions{});
  return tokenizer_.encode(turns.front(), false);
}

std::vector<TokenId> PromptMaker::user_prefix() const {
  if (!template_)
    fail(ErrorCode::kUnsupported,
         "this model has no chat template, so it cannot draw prompts itself");
  const std::vector<std::string> turns = {"question"};
  std::vector<TextSpan> prefix;
  bool found = false;
  for (const TextSpan& span : render(turns, {})) {
    found = !span.trusted;
    if (found) break;
    prefix.push_back(span);
  }
  std::vector<TokenId> ids;
  if (found && !prefix.empty()) ids = tokenizer_.encode(prefix, EncodeOptions{});
  if (ids.empty())
    fail(ErrorCode::kUnsupported,
         "this model's chat template does not show where the user's turn begins, so the model "
         "cannot draw prompts itself");
  return ids;
}

}  // namespace clover
