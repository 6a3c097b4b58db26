// SPDX-License-Identifier: Apache-2.0
// Helpers for the tests of chat templates.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tokenizer/chat_template.h"

namespace clover {

inline std::string joined(const std::vector<TextSpan>& spans) {
  std::string text;
  for (const TextSpan& span : spans) text += span.text;
  return text;
}

// Renders with these variables (a JSON object's text) and no messages.
inline std::vector<TextSpan> render_spans(const std::string& source,
                                          const std::string& variables = "{}") {
  ChatRenderOptions options;
  options.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  options.variables = Json::parse(variables);
  return ChatTemplate::parse(source).render(Json::array(), options);
}

inline std::string render_text(const std::string& source, const std::string& variables = "{}") {
  return joined(render_spans(source, variables));
}

// The trusted text in plain and the untrusted in brackets, for example "<|im_start|>[user]".
inline std::string render_marks(const std::string& source, const std::string& variables = "{}") {
  std::string text;
  for (const TextSpan& span : render_spans(source, variables)) {
    text += span.trusted ? span.text : "[" + span.text + "]";
  }
  return text;
}

// The Error that parsing and rendering gives, or nothing.
inline std::optional<Error> render_error(const std::string& source,
                                         const std::string& variables = "{}") {
  try {
    render_text(source, variables);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

}  // namespace clover
