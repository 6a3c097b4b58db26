// SPDX-License-Identifier: Apache-2.0
// Statements; expressions are in expressions.cc.
#include "tokenizer/chat_template/evaluator.h"

#include "tokenizer/chat_template/format.h"
#include "tokenizer/chat_template/operations.h"

namespace clover {

JinjaValue* JinjaScope::find_here(const std::string& name) {
  for (auto& [key, value] : variables) {
    if (key == name) return &value;
  }
  return nullptr;
}

void JinjaScope::set(const std::string& name, JinjaValue value) {
  if (JinjaValue* present = find_here(name)) {
    *present = std::move(value);
  } else {
    variables.emplace_back(name, std::move(value));
  }
}

JinjaEvaluator::Block::Block(JinjaEvaluator& evaluator, JinjaScope* outer)
    : evaluator_(evaluator), caller_(evaluator.scope_), macros_(evaluator.macros_.size()) {
  evaluator.context_.charge(2);
  if (evaluator.free_scopes_.empty()) {
    evaluator.free_scopes_.push_back(&evaluator.scopes_.emplace_back());
  }
  evaluator.scope_ = evaluator.free_scopes_.back();
  evaluator.free_scopes_.pop_back();
  evaluator.scope_->outer = outer;
}

JinjaEvaluator::Block::~Block() {
  if (evaluator_.macros_.size() == macros_) {  // else a macro may still refer to the scope
    evaluator_.scope_->variables.clear();
    evaluator_.free_scopes_.push_back(evaluator_.scope_);
  }
  evaluator_.scope_ = caller_;
}

MarkedText JinjaEvaluator::run(const JinjaTemplate& parsed) {
  MarkedText result;
  output_ = &result;
  execute(parsed.body);
  output_ = nullptr;
  return result;
}

void JinjaEvaluator::print(const MarkedText& text) {
  context_.charge_text(text.size());
  output_->append(text);
  if (output_->size() > static_cast<size_t>(context_.limits().max_bytes)) {
    context_.charge_text(output_->size());
  }
}

JinjaEvaluator::Flow JinjaEvaluator::execute(const JinjaBody& body) {
  for (const auto& stmt : body) {
    const Flow flow = execute(*stmt);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

JinjaEvaluator::Flow JinjaEvaluator::execute(const JinjaStmt& stmt) {
  const JinjaContext::Deeper deeper(context_);
  context_.charge(1);
  context_.set_line(stmt.line);
  switch (stmt.kind) {
    case JinjaStmtKind::kText:
      print(*stmt.text);
      break;
    case JinjaStmtKind::kOutput:
      print(to_text(context_, evaluate(*stmt.value)));
      break;
    case JinjaStmtKind::kIf:
      return execute_if(stmt);
    case JinjaStmtKind::kFor:
      return execute_for(stmt);
    case JinjaStmtKind::kSet:
      assign(*stmt.target, evaluate(*stmt.value));
      break;
    case JinjaStmtKind::kSetBlock: {
      JinjaValue value = capture(stmt.body);
      if (stmt.value) value = evaluate(*stmt.value, &value);
      assign(*stmt.target, value);
      break;
    }
    case JinjaStmtKind::kMacro:
      scope_->set(stmt.name, make_macro(stmt));
      break;
    case JinjaStmtKind::kCall:
      execute_call(stmt);
      break;
    case JinjaStmtKind::kFilterBlock: {
      const JinjaValue value = capture(stmt.body);
      print(to_text(context_, evaluate(*stmt.value, &value)));
      break;
    }
    case JinjaStmtKind::kScope: {
      const JinjaValue value = capture(stmt.body);
      print(*value.text);
      break;
    }
    case JinjaStmtKind::kWith:
      return execute_with(stmt);
    case JinjaStmtKind::kBreak:
      return Flow::kBreak;
    case JinjaStmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

JinjaEvaluator::Flow JinjaEvaluator::execute_if(const JinjaStmt& stmt) {
  for (const JinjaBranch& branch : stmt.branches) {
    if (!branch.condition || is_true(evaluate(*branch.condition))) return execute(branch.body);
  }
  return Flow::kNormal;
}

std::vector<JinjaValue> JinjaEvaluator::loop_items(const JinjaStmt& stmt) {
  std::vector<JinjaValue> items = items_of(context_, evaluate(*stmt.value));
  if (!stmt.test) return items;
  std::vector<JinjaValue> kept;
  for (JinjaValue& item : items) {
    const Block block(*this, scope_);
    assign(*stmt.target, item);
    if (is_true(evaluate(*stmt.test))) kept.push_back(std::move(item));
  }
  return kept;
}

JinjaEvaluator::Flow JinjaEvaluator::execute_for(const JinjaStmt& stmt) {
  std::vector<JinjaValue> items = loop_items(stmt);
  context_.charge(4);
  JinjaLoop& loop = loops_.emplace_back();
  loop.items = std::move(items);
  // As in Jinja, a turn that was left by break or continue does not keep the else block away.
  bool completed = false;
  execute_turns(stmt, loop, completed);
  loop.items = {};
  if (completed || stmt.other.empty()) return Flow::kNormal;
  const Block block(*this, scope_);
  return execute(stmt.other);
}

JinjaEvaluator::Flow JinjaEvaluator::execute_turns(const JinjaStmt& stmt, JinjaLoop& loop,
                                                   bool& completed) {
  JinjaValue loop_value;
  loop_value.type = JinjaType::kLoop;
  loop_value.loop = &loop;
  for (loop.index = 0; loop.index < loop.items.size(); ++loop.index) {
    context_.charge(1);
    const Block block(*this, scope_);
    scope_->set("loop", loop_value);
    assign(*stmt.target, loop.items[loop.index]);
    const Flow flow = execute(stmt.body);
    if (flow == Flow::kBreak) break;
    completed = completed || flow == Flow::kNormal;
  }
  return Flow::kNormal;
}

JinjaEvaluator::Flow JinjaEvaluator::execute_with(const JinjaStmt& stmt) {
  std::vector<JinjaValue> values;
  for (const auto& parameter : stmt.parameters) values.push_back(evaluate(*parameter.second));
  const Block block(*this, scope_);
  for (size_t i = 0; i < values.size(); ++i) {
    scope_->set(stmt.parameters[i].first, std::move(values[i]));
  }
  return execute(stmt.body);
}

JinjaValue JinjaEvaluator::make_macro(const JinjaStmt& stmt) {
  context_.charge(4);
  JinjaValue value;
  value.type = JinjaType::kMacro;
  value.macro = &macros_.emplace_back(JinjaMacro{&stmt, scope_});
  return value;
}

void JinjaEvaluator::execute_call(const JinjaStmt& stmt) {
  const JinjaValue caller = make_macro(stmt);
  print(to_text(context_, evaluate_call(*stmt.value, &caller)));
}

JinjaValue JinjaEvaluator::capture(const JinjaBody& body) {
  MarkedText text;
  MarkedText* const outer = std::exchange(output_, &text);
  {
    const Block block(*this, scope_);
    execute(body);
  }
  output_ = outer;
  return context_.text(std::move(text));
}

JinjaValue JinjaEvaluator::call_macro(const JinjaMacro& macro, const JinjaArgs& args,
                                      const JinjaValue* caller) {
  const int line = context_.line();
  const Block block(*this, macro.scope);
  if (caller != nullptr) scope_->set("caller", *caller);
  bind_parameters(*macro.definition, args);
  JinjaValue result = capture(macro.definition->body);
  context_.set_line(line);
  return result;
}

void JinjaEvaluator::bind_parameters(const JinjaStmt& definition, const JinjaArgs& args) {
  const auto& parameters = definition.parameters;
  if (args.positional.size() > parameters.size()) {
    context_.fail_here("'{}' takes at most {} arguments, got {}", definition.name,
                       parameters.size(), args.positional.size());
  }
  size_t used = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, otherwise] = parameters[i];
    const JinjaValue* given = nullptr;
    for (const auto& [key, value] : args.named) {
      if (key == name) given = &value;
    }
    if (given != nullptr) ++used;
    if (given != nullptr && i < args.positional.size()) {
      context_.fail_here("'{}' got two values for '{}'", definition.name, name);
    }
    if (i < args.positional.size()) given = &args.positional[i];
    JinjaValue value = given != nullptr ? *given
                       : otherwise      ? evaluate(*otherwise)
                                        : JinjaValue::undefined(name);
    scope_->set(name, std::move(value));
  }
  if (used < args.named.size()) {
    context_.fail_here("'{}' has no parameter '{}'", definition.name, args.named.back().first);
  }
}

void JinjaEvaluator::assign(const JinjaExpr& target, const JinjaValue& value) {
  switch (target.kind) {
    case JinjaExprKind::kTuple: {
      const std::vector<JinjaValue> items = items_of(context_, value);
      if (items.size() != target.args.size()) {
        context_.fail_here("cannot unpack {} values into {} names", items.size(),
                           target.args.size());
      }
      for (size_t i = 0; i < items.size(); ++i) assign(*target.args[i], items[i]);
      return;
    }
    case JinjaExprKind::kAttribute: {
      const JinjaValue space = evaluate(*target.args[0]);
      if (!space.is(JinjaType::kNamespace)) {
        context_.fail_here("cannot assign to attribute '{}' of a {}", target.name,
                           space.type_name());
      }
      context_.set_item(*space.dict, JinjaValue::of_text(target.name, true), value);
      return;
    }
    default:
      context_.charge(1 + static_cast<int64_t>(scope_->variables.size()) / 8);
      scope_->set(target.name, value);
  }
}

}  // namespace clover
