// SPDX-License-Identifier: Apache-2.0
#include "cli/conversation.h"

#include <ctime>
#include <utility>

#include "base/error.h"

namespace clover {
namespace {

std::string required_template(const Tokenizer& tokenizer) {
  auto source = tokenizer.chat_template();
  if (!source)
    fail(ErrorCode::kNotFound, "this model has no chat template; use generate without --chat");
  return *std::move(source);
}

int64_t local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return static_cast<int64_t>(now) + local.tm_gmtoff;
}

}  // namespace

Conversation::Conversation(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer), template_(ChatTemplate::parse(required_template(tokenizer))) {}

void Conversation::add(const std::string& role, std::string text) {
  messages_.push_back({role, std::move(text)});
}

bool Conversation::drop_oldest() {
  if (messages_.size() <= 1) return false;
  // Roles alternate and a conversation begins with a question.
  size_t count = 1;
  while (count < messages_.size() - 1 && messages_[count].role != "user") ++count;
  messages_.erase(messages_.begin(), messages_.begin() + static_cast<std::ptrdiff_t>(count));
  return true;
}

std::vector<TokenId> Conversation::prompt() const {
  Json messages = Json::array();
  if (!system_.empty()) messages.push_back({{"role", "system"}, {"content", system_}});
  for (const Message& message : messages_)
    messages.push_back({{"role", message.role}, {"content", message.text}});
  ChatRenderOptions options;
  options.special_tokens = tokenizer_.template_tokens();
  options.now = local_now();
  return tokenizer_.encode(template_.render(messages, options), EncodeOptions{});
}

}  // namespace clover
