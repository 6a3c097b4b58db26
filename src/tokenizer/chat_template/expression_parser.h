// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tokenizer/chat_template/ast.h"
#include "tokenizer/chat_template/token_stream.h"

namespace clover {

// Parses Jinja expressions by recursive descent; nesting and tree height are bounded.
class JinjaExpressionParser {
 public:
  explicit JinjaExpressionParser(JinjaTokens& tokens) : tokens_(tokens) {}

  JinjaExprPtr parse_expression();
  // An expression, or a tuple of several with commas. Without conditionals, `x if y` ends before
  // the "if" (as in the head of a for statement).
  JinjaExprPtr parse_tuple(bool conditionals);
  // What can stand left of "=": a name, names with commas, or a namespace's attribute.
  JinjaExprPtr parse_target(bool attributes);
  // The filters after a block's name; null when there are none. `inline_first`: the first filter
  // has no "|" before it.
  JinjaExprPtr parse_filters(JinjaExprPtr value, bool inline_first);

  const std::set<std::string>& names_read() const { return names_read_; }

  // Counts nesting for as long as it lives; Error past the limit.
  class Nested {
   public:
    explicit Nested(JinjaExpressionParser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxNesting) parser_.tokens_.unsupported("nested too deeply");
    }
    ~Nested() { --parser_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    JinjaExpressionParser& parser_;
  };

 private:
  static constexpr int kMaxNesting = 150;
  static constexpr int kMaxHeight = 400;

  JinjaExprPtr make(JinjaExprKind kind, int line) const;
  // Adds a child (may be null) and keeps the height.
  void add(JinjaExpr& parent, JinjaExprPtr child) const;
  void raise_height(JinjaExpr& parent, const JinjaExpr& child) const;

  JinjaExprPtr parse_one_target(bool attributes);
  JinjaExprPtr parse_or();
  JinjaExprPtr parse_and();
  JinjaExprPtr parse_not();
  JinjaExprPtr parse_comparison();
  JinjaExprPtr parse_sum();
  JinjaExprPtr parse_concat();
  JinjaExprPtr parse_product();
  JinjaExprPtr parse_power();
  JinjaExprPtr parse_unary(bool filters);
  JinjaExprPtr parse_primary();
  JinjaExprPtr parse_name();
  JinjaExprPtr parse_number();
  JinjaExprPtr parse_list();
  JinjaExprPtr parse_dict();
  JinjaExprPtr parse_postfix(JinjaExprPtr value);
  JinjaExprPtr parse_filters_and_tests(JinjaExprPtr value);
  JinjaExprPtr parse_attribute(JinjaExprPtr value);
  JinjaExprPtr parse_subscript(JinjaExprPtr value);
  JinjaExprPtr parse_call(JinjaExprPtr callee);
  JinjaExprPtr parse_filter(JinjaExprPtr value);
  JinjaExprPtr parse_test(JinjaExprPtr value);
  void parse_arguments(JinjaExpr& call);
  // Refuses select("unknown") and the like early.
  void check_named_builtins(const JinjaExpr& filter) const;

  JinjaTokens& tokens_;
  std::set<std::string> names_read_;
  int depth_ = 0;
};

}  // namespace clover
