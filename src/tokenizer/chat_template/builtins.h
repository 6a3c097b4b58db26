// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/chat_template/context.h"

namespace clover {

// The evaluated arguments of a call, filter or test.
struct JinjaArgs {
  std::vector<JinjaValue> positional;
  std::vector<std::pair<std::string, JinjaValue>> named;

  // The argument at this position or of this name, or null.
  const JinjaValue* find(size_t position, std::string_view name) const;
  // The same with a default.
  JinjaValue get(size_t position, std::string_view name, const JinjaValue& otherwise) const;
  // Error unless it is there.
  const JinjaValue& need(const JinjaContext& context, size_t position, std::string_view name) const;
  // Its truth, integer (or an error), or text (or an error).
  bool get_bool(size_t position, std::string_view name, bool otherwise) const;
  int64_t get_int(const JinjaContext& context, size_t position, std::string_view name,
                  int64_t otherwise) const;
  MarkedText get_text(const JinjaContext& context, size_t position, std::string_view name,
                      std::string_view otherwise) const;
  // Error when there are more positional arguments than `most`.
  void at_most(const JinjaContext& context, size_t most) const;
};

// `value | name(args)`.
struct JinjaFilter {
  std::string_view name;
  JinjaValue (*run)(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args);
};
// `value is name(args)`.
struct JinjaTest {
  std::string_view name;
  bool (*run)(JinjaContext& context, const JinjaValue& value, const JinjaArgs& args);
};
// A global function.
struct JinjaFunction {
  std::string_view name;
  JinjaValue (*run)(JinjaContext& context, const JinjaArgs& args);
};

// Null for unknown names.
const JinjaFilter* find_jinja_filter(std::string_view name);
const JinjaTest* find_jinja_test(std::string_view name);
const JinjaFunction* find_jinja_function(std::string_view name);

// Whether values of this type have a method of this name, and whether any type has.
bool has_method(const JinjaValue& value, std::string_view name);
bool is_known_method(std::string_view name);
// Calls method.self.name(args).
JinjaValue call_method(JinjaContext& context, const JinjaMethod& method, const JinjaArgs& args);

// The tables that the above search; one per file.
const JinjaFilter* find_text_filter(std::string_view name);
const JinjaFilter* find_list_filter(std::string_view name);
const JinjaFilter* find_selection_filter(std::string_view name);
const JinjaFilter* find_number_filter(std::string_view name);

// Searches a table of filters, tests or functions.
template <typename Entry, size_t kCount>
const Entry* find_entry(const Entry (&table)[kCount], std::string_view name) {
  for (const Entry& entry : table) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

// strftime for the C locale; `seconds` since 1970-01-01 00:00 of the clock that is shown.
std::string format_time(const JinjaContext& context, std::string_view format, int64_t seconds);

}  // namespace clover
