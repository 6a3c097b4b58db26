// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "measure/questions.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace clover {

// A question as the model reads it.
struct Prompt {
  std::string category;
  std::vector<TokenId> ids;             // of the first turn
  std::vector<std::string> turns = {};  // the user's, the first included; empty: there is no other
};

// Writes conversations as the model reads them: in its chat template, or line by line where it has
// none.
class PromptWriter {
 public:
  // The tokenizer must outlive it. Errors as ChatTemplate::parse().
  explicit PromptWriter(const Tokenizer& tokenizer);
  ~PromptWriter();

  // The user's turn number `answers.size()` (from 0) behind the turns and answers before it.
  std::vector<TokenId> write(std::span<const std::string> turns,
                             std::span<const std::string> answers) const;

 private:
  const Tokenizer& tokenizer_;
  std::unique_ptr<const ChatTemplate> chat_;  // null: none
};

// The questions with the ids of their first turns, ordered by category.
std::vector<Prompt> render_prompts(const std::vector<Question>& questions,
                                   const Tokenizer& tokenizer);

// What the user says and the model answered: a prompt on its way through its turns.
class Dialogue {
 public:
  explicit Dialogue(const Prompt& prompt) : prompt_(&prompt) {}

  // Whether another turn is to be asked.
  bool more() const { return answers_.empty() || answers_.size() < prompt_->turns.size(); }
  // The ids of the turn that is due.
  std::vector<TokenId> ids(const PromptWriter& writer) const {
    return answers_.empty() ? prompt_->ids : writer.write(prompt_->turns, answers_);
  }
  void answered(std::string text) { answers_.push_back(std::move(text)); }
  const Prompt& prompt() const { return *prompt_; }

 private:
  const Prompt* prompt_;
  std::vector<std::string> answers_;
};

}  // namespace clover
