// SPDX-License-Identifier: Apache-2.0
#include "cli/conversation.h"

#include <ctime>
#include <optional>
#include <utility>

#include "base/error.h"

namespace clover {
namespace {

std::string required_template(const Checkpoint& checkpoint, const Tokenizer& tokenizer) {
  auto source = tokenizer.chat_template();
  if (!source)
    fail(ErrorCode::kNotFound, "{} has no chat template; use generate without --chat",
         checkpoint.path());
  return *std::move(source);
}

// "bos_token" of a JSON document: a text, or an object with "content".
std::optional<std::string> token_text(const Json* document, const std::string& name) {
  if (document == nullptr || !document->is_object()) return std::nullopt;
  auto value = document->find(name);
  if (value == document->end()) return std::nullopt;
  if (value->is_object() && value->contains("content")) value = value->find("content");
  if (!value->is_string()) return std::nullopt;
  return value->get<std::string>();
}

int64_t local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return static_cast<int64_t>(now) + local.tm_gmtoff;
}

}  // namespace

std::map<std::string, std::string> special_token_texts(const Checkpoint& checkpoint,
                                                       const Tokenizer& tokenizer) {
  struct Name {
    const char* variable;
    const char* gguf_key;
  };
  constexpr Name kNames[] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                             {"eos_token", "tokenizer.ggml.eos_token_id"},
                             {"unk_token", "tokenizer.ggml.unknown_token_id"},
                             {"pad_token", "tokenizer.ggml.padding_token_id"}};
  std::map<std::string, std::string> texts;
  for (const auto& [variable, key] : kNames) {
    if (checkpoint.format() == Checkpoint::Format::kGguf) {
      const auto id = checkpoint.meta_int(key);
      if (id && *id >= 0 && *id < tokenizer.vocab_size())
        texts[variable] = tokenizer.token_bytes(static_cast<TokenId>(*id));
      continue;
    }
    auto text = token_text(checkpoint.document("tokenizer_config.json"), variable);
    if (!text) text = token_text(checkpoint.document("special_tokens_map.json"), variable);
    if (text) texts[variable] = *text;
  }
  if (!texts.contains("bos_token") && tokenizer.bos())
    texts["bos_token"] = tokenizer.token_bytes(*tokenizer.bos());
  return texts;
}

Conversation::Conversation(const Checkpoint& checkpoint, const Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      template_(ChatTemplate::parse(required_template(checkpoint, tokenizer))),
      special_tokens_(special_token_texts(checkpoint, tokenizer)) {}

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
  options.special_tokens = special_tokens_;
  options.now = local_now();
  return tokenizer_.encode(template_.render(messages, options), EncodeOptions{});
}

}  // namespace clover
