// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace clover {

// Bounds on the work of one rendering. Passing one is an Error(kExhausted) naming the limit.
struct ChatTemplateLimits {
  // Evaluated nodes, loop turns, and list items or 16-byte pieces of text made, together.
  int64_t max_steps = 10'000'000;
  // Bytes of the result, and of any one string on the way to it.
  int64_t max_bytes = 64 << 20;
  // Nested expressions, blocks and macro calls during rendering.
  int max_depth = 600;
};

// What a template sees besides the messages.
struct ChatRenderOptions {
  bool add_generation_prompt = true;
  // A JSON list of tools in the OpenAI shape, or null.
  Json tools;
  // Special tokens by name ("bos_token", "eos_token", "pad_token", …); their text is trusted.
  std::map<std::string, std::string> special_tokens;
  // Further variables for the template, for example {"enable_thinking": false}; a JSON object or
  // null. They win over the special tokens of the same name and are untrusted like the messages.
  Json variables;
  // What strftime_now() formats: local wall-clock time as seconds since 1970-01-01 00:00 local
  // time. Time is an input here, so that a rendering can be repeated.
  int64_t now = 0;
  ChatTemplateLimits limits;
};

struct JinjaTemplate;  // The parsed form; see chat_template/ast.h.

// The chat template of a model: the subset of Jinja that such templates use, run by an interpreter
// that reaches nothing but the data it is given and does bounded work, because a template comes
// from a model file that nobody checked. Immutable after parse(), all methods are thread-safe.
//
// Every character of the result is marked by its origin. Text that stands in the template, and the
// special tokens, are trusted; text from messages, tools and variables is not, whatever string
// operations it went through (see docs at MarkedText for the rules).
class ChatTemplate {
 public:
  // Errors: kCorrupt for a syntax error, kUnsupported for well-formed Jinja that chat templates do
  // not use (include, extends, unknown filters, …); both name the line.
  static ChatTemplate parse(std::string source);

  // Renders a JSON list of messages as transformers' apply_chat_template does. Adjacent spans
  // differ in `trusted`, none is empty. Errors: kInvalidArgument with exactly the template's own
  // text for raise_exception(), kInvalidArgument with the line where an operation does not fit its
  // data, kExhausted for a passed limit.
  std::vector<TextSpan> render(const Json& messages, const ChatRenderOptions& options) const;

  const std::string& source() const { return source_; }
  // Whether the template reads a variable of this name, for example "tools" or "enable_thinking".
  bool mentions(const std::string& variable) const;

 private:
  ChatTemplate() = default;
  std::string source_;
  std::shared_ptr<const JinjaTemplate> parsed_;
};

}  // namespace clover
