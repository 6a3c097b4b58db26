// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/chat_template/value.h"

namespace clover {

// What one rendering shares: the values it made, its limits and the line it is at. Everything that
// makes a value or loops over one goes through here, so that the work stays bounded.
class JinjaContext {
 public:
  JinjaContext(const ChatTemplateLimits& limits, int64_t now) : limits_(limits), now_(now) {}
  JinjaContext(const JinjaContext&) = delete;
  JinjaContext& operator=(const JinjaContext&) = delete;

  // Counts work; Error(kExhausted) past the limit.
  void charge(int64_t steps) {
    steps_ += steps;
    if (steps_ > limits_.max_steps) too_many_steps();
  }
  // Counts work on a text of this size and refuses texts over the limit.
  void charge_text(size_t bytes);

  // A string value within the limits.
  JinjaValue text(MarkedText value);
  JinjaValue text(std::string value, bool trusted) {
    return text(MarkedText(std::move(value), trusted));
  }
  JinjaValue list(std::vector<JinjaValue> items, JinjaType type = JinjaType::kList);
  JinjaValue dict(JinjaType type = JinjaType::kDict);
  JinjaValue method(JinjaValue self, std::string name);
  // `dict[key] = value`; Error(kInvalidArgument) when the key cannot be one.
  void set_item(JinjaDict& dict, const JinjaValue& key, JinjaValue value);

  // Error(kInvalidArgument) with the current line.
  template <typename... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) const {
    fail_with(fmt::format(format, std::forward<Args>(args)...));
  }

  // Held while one level deeper; Error(kExhausted) past the limit.
  class Deeper {
   public:
    explicit Deeper(JinjaContext& context) : context_(context) {
      if (++context_.depth_ > context_.limits_.max_depth) context_.too_deep();
    }
    ~Deeper() { --context_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    JinjaContext& context_;
  };

  const ChatTemplateLimits& limits() const { return limits_; }
  int64_t now() const { return now_; }
  int line() const { return line_; }
  void set_line(int line) { line_ = line; }

 private:
  [[noreturn]] void fail_with(const std::string& message) const;
  [[noreturn]] void too_many_steps() const;
  // Leaves `depth_` as it was, since no destructor will.
  [[noreturn]] void too_deep();

  ChatTemplateLimits limits_;
  int64_t now_;
  int64_t steps_ = 0;
  int depth_ = 0;
  int line_ = 1;
  std::deque<JinjaList> lists_;
  std::deque<JinjaDict> dicts_;
  std::deque<JinjaMethod> methods_;
};

// Converts data from outside; every text in it gets `trusted`. Errors: kInvalidArgument for nesting
// over 200 or integers beyond 64 bits.
JinjaValue to_jinja_value(JinjaContext& context, const Json& json, bool trusted);

}  // namespace clover
