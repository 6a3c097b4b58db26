// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/chat_template.h"

#include "tokenizer/chat_template/evaluator.h"
#include "tokenizer/chat_template/parser.h"

namespace clover {
namespace {

constexpr size_t kMaxSource = 1 << 20;

void define_variables(JinjaEvaluator& evaluator, JinjaContext& context,
                      const ChatRenderOptions& options) {
  for (const auto& [name, text] : options.special_tokens) {
    evaluator.define(name, JinjaValue::of_text(text, true));
  }
  evaluator.define("documents", JinjaValue::none());
  evaluator.define("add_generation_prompt", JinjaValue::of_bool(options.add_generation_prompt));
  evaluator.define("tools", to_jinja_value(context, options.tools, false));
  if (options.variables.is_null()) return;
  if (!options.variables.is_object()) {
    fail(ErrorCode::kInvalidArgument, "the variables of a chat template must be a JSON object");
  }
  for (const auto& [name, value] : options.variables.items()) {
    evaluator.define(name, to_jinja_value(context, value, false));
  }
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string source) {
  if (source.size() > kMaxSource) {
    fail(ErrorCode::kUnsupported, "the chat template of {} bytes is longer than {}", source.size(),
         kMaxSource);
  }
  ChatTemplate result;
  result.parsed_ = parse_jinja(source);
  result.source_ = std::move(source);
  return result;
}

std::vector<TextSpan> ChatTemplate::render(const Json& messages,
                                           const ChatRenderOptions& options) const {
  JinjaContext context(options.limits, options.now);
  JinjaEvaluator evaluator(context);
  define_variables(evaluator, context, options);
  evaluator.define("messages", to_jinja_value(context, messages, false));
  return evaluator.run(*parsed_).spans();
}

bool ChatTemplate::mentions(const std::string& variable) const {
  return parsed_->names_read.contains(variable);
}

}  // namespace clover
