// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/chat_template/builtins.h"
#include "tokenizer/chat_template/operations.h"

namespace clover {

const JinjaValue* JinjaArgs::find(size_t position, std::string_view name) const {
  if (position < positional.size()) return &positional[position];
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

JinjaValue JinjaArgs::get(size_t position, std::string_view name,
                          const JinjaValue& otherwise) const {
  const JinjaValue* found = find(position, name);
  return found != nullptr ? *found : otherwise;
}

const JinjaValue& JinjaArgs::need(const JinjaContext& context, size_t position,
                                  std::string_view name) const {
  const JinjaValue* found = find(position, name);
  if (found == nullptr) context.fail_here("the argument '{}' is missing", name);
  return *found;
}

bool JinjaArgs::get_bool(size_t position, std::string_view name, bool otherwise) const {
  const JinjaValue* found = find(position, name);
  return found != nullptr ? is_true(*found) : otherwise;
}

int64_t JinjaArgs::get_int(const JinjaContext& context, size_t position, std::string_view name,
                           int64_t otherwise) const {
  const JinjaValue* found = find(position, name);
  if (found == nullptr || found->is_none()) return otherwise;
  if (!found->is_integral()) {
    context.fail_here("the argument '{}' must be an integer, not {}", name, found->type_name());
  }
  return found->as_int();
}

MarkedText JinjaArgs::get_text(const JinjaContext& context, size_t position, std::string_view name,
                               std::string_view otherwise) const {
  const JinjaValue* found = find(position, name);
  if (found == nullptr) return {std::string(otherwise), true};
  if (!found->is_string()) {
    context.fail_here("the argument '{}' must be a string, not {}", name, found->type_name());
  }
  return *found->text;
}

void JinjaArgs::at_most(const JinjaContext& context, size_t most) const {
  if (positional.size() + named.size() > most) {
    context.fail_here("takes at most {} arguments, got {}", most, positional.size() + named.size());
  }
}

const JinjaFilter* find_jinja_filter(std::string_view name) {
  for (const auto find :
       {find_text_filter, find_list_filter, find_selection_filter, find_number_filter}) {
    if (const JinjaFilter* found = find(name)) return found;
  }
  return nullptr;
}

}  // namespace clover
