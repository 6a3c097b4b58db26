// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace clover {

// The messages of a chat and the model's template that makes a prompt of them.
class Conversation {
 public:
  // The tokenizer must outlive it. Error(kNotFound) when the model has no chat template; errors of
  // ChatTemplate::parse.
  explicit Conversation(const Tokenizer& tokenizer);

  void set_system(std::string text) { system_ = std::move(text); }
  const std::string& system() const { return system_; }
  // `role` is "user" or "assistant".
  void add(const std::string& role, std::string text);
  // Takes back the last message.
  void remove_last() { messages_.pop_back(); }
  // Forgets the oldest question and its answer; false when only the last message is left.
  bool drop_oldest();
  void clear() { messages_.clear(); }

  // The ids of the conversation so far, ready for the model's answer. Errors of
  // ChatTemplate::render, with what the template said.
  std::vector<TokenId> prompt() const;

 private:
  struct Message {
    std::string role;
    std::string text;
  };
  const Tokenizer& tokenizer_;
  ChatTemplate template_;
  std::string system_;  // empty: none
  std::vector<Message> messages_;
};

}  // namespace clover
