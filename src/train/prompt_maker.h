// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace clover {

// Makes the target's prompts out of texts. Texts are untrusted: none can spell a control token. A
// template that asks for the date always sees 1 January 2025, so that prompts can be made again.
class PromptMaker {
 public:
  // The tokenizer must outlive it. Errors of ChatTemplate::parse.
  explicit PromptMaker(const Tokenizer& tokenizer);

  const Tokenizer& tokenizer() const { return tokenizer_; }
  // Without a template, a prompt is the text itself and a conversation has one turn.
  bool has_template() const { return template_.has_value(); }

  // The ids of a conversation that waits for its answer: `turns` of the user, one more than
  // `answers`. Errors of ChatTemplate::render.
  std::vector<TokenId> prompt(std::span<const std::string> turns,
                              std::span<const std::string> answers) const;
  // The ids up to where the user's first turn begins: what follows is a prompt of the target's own.
  // Error(kUnsupported) when the template shows no such place, or there is none.
  std::vector<TokenId> user_prefix() const;

 private:
  std::vector<TextSpan> render(std::span<const std::string> turns,
                               std::span<const std::string> answers) const;

  const Tokenizer& tokenizer_;
  std::optional<ChatTemplate> template_;
};

}  // namespace clover
