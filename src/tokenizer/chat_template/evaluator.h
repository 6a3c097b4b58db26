// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/chat_template/ast.h"
#include "tokenizer/chat_template/builtins.h"
#include "tokenizer/chat_template/context.h"
#include "tokenizer/chat_template/loop.h"

namespace clover {

// The variables of one block and the block around it.
struct JinjaScope {
  JinjaScope* outer = nullptr;
  std::vector<std::pair<std::string, JinjaValue>> variables;

  JinjaValue* find_here(const std::string& name);
  void set(const std::string& name, JinjaValue value);
};

// A macro (or a call block's body) and the scope it was defined in.
struct JinjaMacro {
  const JinjaStmt* definition;
  JinjaScope* scope;
};

// Runs a parsed template once.
class JinjaEvaluator {
 public:
  explicit JinjaEvaluator(JinjaContext& context) : context_(context) {}

  // Makes a variable for the template.
  void define(const std::string& name, JinjaValue value) { root_.set(name, std::move(value)); }
  MarkedText run(const JinjaTemplate& parsed);

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  // The value that stands in for a filter block's missing input.
  using Input = const JinjaValue*;

  JinjaValue evaluate(const JinjaExpr& expr, Input input = nullptr);
  JinjaValue dispatch(const JinjaExpr& expr, Input input);
  JinjaValue evaluate_name(const JinjaExpr& expr);
  JinjaValue evaluate_dict(const JinjaExpr& expr);
  JinjaValue evaluate_slice(const JinjaExpr& expr);
  JinjaValue evaluate_call(const JinjaExpr& expr, const JinjaValue* caller);
  JinjaValue evaluate_filter(const JinjaExpr& expr, Input input);
  JinjaValue evaluate_conditional(const JinjaExpr& expr);
  JinjaValue evaluate_compare(const JinjaExpr& expr);
  JinjaValue evaluate_concat(const JinjaExpr& expr);
  std::vector<JinjaValue> evaluate_all(const JinjaExpr& expr, size_t first);
  JinjaArgs evaluate_args(const JinjaExpr& expr);
  JinjaValue call_macro(const JinjaMacro& macro, const JinjaArgs& args, const JinjaValue* caller);
  void bind_parameters(const JinjaStmt& definition, const JinjaArgs& args);

  Flow execute(const JinjaBody& body);
  Flow execute(const JinjaStmt& stmt);
  Flow execute_if(const JinjaStmt& stmt);
  Flow execute_for(const JinjaStmt& stmt);
  Flow execute_turns(const JinjaStmt& stmt, JinjaLoop& loop, bool& completed);
  Flow execute_with(const JinjaStmt& stmt);
  void execute_call(const JinjaStmt& stmt);
  std::vector<JinjaValue> loop_items(const JinjaStmt& stmt);
  JinjaValue make_macro(const JinjaStmt& stmt);
  // Runs a body in a scope of its own and returns what it printed.
  JinjaValue capture(const JinjaBody& body);
  void assign(const JinjaExpr& target, const JinjaValue& value);
  void print(const MarkedText& text);

  // A scope inside the current one for as long as it lives.
  class Block {
   public:
    Block(JinjaEvaluator& evaluator, JinjaScope* outer);
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

   private:
    JinjaEvaluator& evaluator_;
    JinjaScope* const caller_;
    const size_t macros_;  // how many existed at the beginning
  };

  JinjaContext& context_;
  JinjaScope root_;
  JinjaScope* scope_ = &root_;
  MarkedText* output_ = nullptr;
  std::deque<JinjaLoop> loops_;           // all that ever ran: values may refer to them
  std::deque<JinjaScope> scopes_;         // all that were ever open: macros may refer to them
  std::vector<JinjaScope*> free_scopes_;  // those that nothing refers to
  std::deque<JinjaMacro> macros_;
};

}  // namespace clover
