// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/chat_template/evaluator.h"
#include "tokenizer/chat_template/format.h"
#include "tokenizer/chat_template/operations.h"

namespace clover {

JinjaValue JinjaEvaluator::evaluate(const JinjaExpr& expr, Input input) {
  const JinjaContext::Deeper deeper(context_);
  context_.charge(1);
  context_.set_line(expr.line);
  return dispatch(expr, input);
}

JinjaValue JinjaEvaluator::dispatch(const JinjaExpr& expr, Input input) {
  const auto arg = [&](size_t i) { return evaluate(*expr.args[i]); };
  switch (expr.kind) {
    case JinjaExprKind::kLiteral:
      return expr.literal;
    case JinjaExprKind::kName:
      return evaluate_name(expr);
    case JinjaExprKind::kList:
      return context_.list(evaluate_all(expr, 0));
    case JinjaExprKind::kTuple:
      return context_.list(evaluate_all(expr, 0), JinjaType::kTuple);
    case JinjaExprKind::kDict:
      return evaluate_dict(expr);
    case JinjaExprKind::kAttribute:
      return get_attribute(context_, arg(0), expr.name);
    case JinjaExprKind::kSubscript: {
      const JinjaValue value = arg(0);
      return get_item(context_, value, arg(1));
    }
    case JinjaExprKind::kSlice:
      return evaluate_slice(expr);
    case JinjaExprKind::kCall:
      return evaluate_call(expr, nullptr);
    case JinjaExprKind::kFilter:
      return evaluate_filter(expr, input);
    case JinjaExprKind::kTest: {
      const JinjaValue value = arg(0);
      return JinjaValue::of_bool(expr.test->run(context_, value, evaluate_args(expr)));
    }
    case JinjaExprKind::kConditional:
      return evaluate_conditional(expr);
    case JinjaExprKind::kOr: {
      JinjaValue left = arg(0);
      return is_true(left) ? left : arg(1);
    }
    case JinjaExprKind::kAnd: {
      JinjaValue left = arg(0);
      return is_true(left) ? arg(1) : left;
    }
    case JinjaExprKind::kNot:
      return JinjaValue::of_bool(!is_true(arg(0)));
    case JinjaExprKind::kNegate:
      return negate(context_, arg(0));
    case JinjaExprKind::kPositive:
      return arithmetic(context_, JinjaOp::kAdd, JinjaValue::of_int(0), arg(0));
    case JinjaExprKind::kCompare:
      return evaluate_compare(expr);
    case JinjaExprKind::kConcat:
      return evaluate_concat(expr);
    case JinjaExprKind::kArithmetic: {
      const JinjaValue left = arg(0);
      const JinjaValue right = arg(1);
      context_.set_line(expr.line);
      return arithmetic(context_, expr.ops[0], left, right);
    }
  }
  return {};
}

JinjaValue JinjaEvaluator::evaluate_name(const JinjaExpr& expr) {
  for (JinjaScope* scope = scope_; scope != nullptr; scope = scope->outer) {
    context_.charge(static_cast<int64_t>(scope->variables.size()) / 8);
    if (const JinjaValue* found = scope->find_here(expr.name)) return *found;
  }
  if (const JinjaFunction* function = find_jinja_function(expr.name)) {
    JinjaValue value;
    value.type = JinjaType::kFunction;
    value.function = function;
    return value;
  }
  return JinjaValue::undefined(expr.name);
}

std::vector<JinjaValue> JinjaEvaluator::evaluate_all(const JinjaExpr& expr, size_t first) {
  std::vector<JinjaValue> values;
  for (size_t i = first; i < expr.args.size(); ++i) values.push_back(evaluate(*expr.args[i]));
  return values;
}

JinjaValue JinjaEvaluator::evaluate_dict(const JinjaExpr& expr) {
  JinjaValue result = context_.dict();
  for (size_t i = 0; i + 1 < expr.args.size(); i += 2) {
    const JinjaValue key = evaluate(*expr.args[i]);
    context_.set_item(*result.dict, key, evaluate(*expr.args[i + 1]));
  }
  return result;
}

JinjaValue JinjaEvaluator::evaluate_slice(const JinjaExpr& expr) {
  const JinjaValue value = evaluate(*expr.args[0]);
  JinjaValue bounds[3];
  const JinjaValue* parts[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    if (!expr.args[i + 1]) continue;
    bounds[i] = evaluate(*expr.args[i + 1]);
    parts[i] = &bounds[i];
  }
  return get_slice(context_, value, parts);
}

JinjaArgs JinjaEvaluator::evaluate_args(const JinjaExpr& expr) {
  JinjaArgs args;
  args.positional = evaluate_all(expr, 1);
  for (const auto& [name, value] : expr.named) args.named.emplace_back(name, evaluate(*value));
  context_.set_line(expr.line);
  return args;
}

JinjaValue JinjaEvaluator::evaluate_call(const JinjaExpr& expr, const JinjaValue* caller) {
  const JinjaValue callee = evaluate(*expr.args[0]);
  const JinjaArgs args = evaluate_args(expr);
  switch (callee.type) {
    case JinjaType::kMacro:
      return call_macro(*callee.macro, args, caller);
    case JinjaType::kFunction:
      return callee.function->run(context_, args);
    case JinjaType::kMethod:
      return call_method(context_, *callee.method, args);
    case JinjaType::kUndefined:
      context_.fail_here("'{}' is undefined, so it cannot be called",
                         callee.text ? callee.bytes() : "");
    default:
      context_.fail_here("a {} cannot be called", callee.type_name());
  }
}

JinjaValue JinjaEvaluator::evaluate_filter(const JinjaExpr& expr, Input input) {
  const JinjaValue value = expr.args[0] ? evaluate(*expr.args[0], input) : *input;
  return expr.filter->run(context_, value, evaluate_args(expr));
}

JinjaValue JinjaEvaluator::evaluate_conditional(const JinjaExpr& expr) {
  if (is_true(evaluate(*expr.args[0]))) return evaluate(*expr.args[1]);
  if (expr.args[2]) return evaluate(*expr.args[2]);
  return JinjaValue::undefined("the missing else branch");
}

JinjaValue JinjaEvaluator::evaluate_compare(const JinjaExpr& expr) {
  JinjaValue left = evaluate(*expr.args[0]);
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    JinjaValue right = evaluate(*expr.args[i + 1]);
    context_.set_line(expr.line);
    if (!compare_with(context_, expr.ops[i], left, right)) return JinjaValue::of_bool(false);
    left = std::move(right);
  }
  return JinjaValue::of_bool(true);
}

JinjaValue JinjaEvaluator::evaluate_concat(const JinjaExpr& expr) {
  MarkedText text;
  for (const JinjaExprPtr& part : expr.args) {
    text.append(to_text(context_, evaluate(*part)));
    if (text.size() > static_cast<size_t>(context_.limits().max_bytes)) {
      context_.charge_text(text.size());
    }
  }
  return context_.text(std::move(text));
}

}  // namespace clover
