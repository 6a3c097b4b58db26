// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/chat_template/expression_parser.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "tokenizer/chat_template/builtins.h"

namespace clover {
namespace {

std::optional<JinjaOp> comparison_of(const JinjaToken& token) {
  static constexpr std::pair<std::string_view, JinjaOp> kComparisons[] = {
      {"==", JinjaOp::kEq}, {"!=", JinjaOp::kNe}, {"<", JinjaOp::kLt},
      {"<=", JinjaOp::kLe}, {">", JinjaOp::kGt},  {">=", JinjaOp::kGe}};
  if (token.type != JinjaTokenType::kOperator) return std::nullopt;
  for (const auto& [text, op] : kComparisons) {
    if (token.value == text) return op;
  }
  return std::nullopt;
}

bool is_constant_name(std::string_view name) {
  return name == "true" || name == "True" || name == "false" || name == "False" || name == "none" ||
         name == "None";
}

// Globals of Jinja that no chat template needs.
bool is_foreign_global(std::string_view name) {
  return name == "lipsum" || name == "cycler" || name == "joiner";
}

}  // namespace

JinjaExprPtr JinjaExpressionParser::make(JinjaExprKind kind, int line) const {
  auto expr = std::make_unique<JinjaExpr>();
  expr->kind = kind;
  expr->line = line;
  return expr;
}

void JinjaExpressionParser::raise_height(JinjaExpr& parent, const JinjaExpr& child) const {
  parent.height = std::max(parent.height, child.height + 1);
  if (parent.height > kMaxHeight) tokens_.unsupported("an expression is too long");
}

void JinjaExpressionParser::add(JinjaExpr& parent, JinjaExprPtr child) const {
  if (child) raise_height(parent, *child);
  parent.args.push_back(std::move(child));
}

JinjaExprPtr JinjaExpressionParser::parse_expression() {
  const Nested nested(*this);
  JinjaExprPtr value = parse_or();
  while (tokens_.at_name("if")) {
    JinjaExprPtr conditional = make(JinjaExprKind::kConditional, tokens_.take().line);
    add(*conditional, parse_or());
    add(*conditional, std::move(value));
    add(*conditional, tokens_.skip_name("else") ? parse_expression() : nullptr);
    value = std::move(conditional);
  }
  return value;
}

JinjaExprPtr JinjaExpressionParser::parse_tuple(bool conditionals) {
  const Nested nested(*this);
  JinjaExprPtr tuple = make(JinjaExprKind::kTuple, tokens_.line());
  const auto at_end = [&] {
    return tokens_.at(JinjaTokenType::kVariableEnd) || tokens_.at(JinjaTokenType::kBlockEnd) ||
           tokens_.at_operator(")");
  };
  bool comma = false;
  while (!at_end()) {
    add(*tuple, conditionals ? parse_expression() : parse_or());
    if (!tokens_.skip_operator(",")) break;
    comma = true;
  }
  if (comma) return tuple;
  if (tuple->args.empty()) {
    if (tokens_.at_operator(")")) return tuple;
    tokens_.corrupt(fmt::format("expected an expression, found {}", tokens_.describe()));
  }
  return std::move(tuple->args[0]);
}

JinjaExprPtr JinjaExpressionParser::parse_one_target(bool attributes) {
  if (tokens_.skip_operator("(")) {
    JinjaExprPtr inside = parse_target(attributes);
    tokens_.expect_operator(")");
    return inside;
  }
  const JinjaToken name = tokens_.take();
  if (is_constant_name(name.value)) tokens_.corrupt("cannot assign to a constant");
  JinjaExprPtr target = make(JinjaExprKind::kName, name.line);
  target->name = name.value;
  if (!attributes || !tokens_.skip_operator(".")) return target;
  JinjaExprPtr attribute = make(JinjaExprKind::kAttribute, name.line);
  attribute->name = tokens_.expect(JinjaTokenType::kName, "an attribute").value;
  add(*attribute, std::move(target));
  return attribute;
}

JinjaExprPtr JinjaExpressionParser::parse_target(bool attributes) {
  const Nested nested(*this);
  JinjaExprPtr tuple = make(JinjaExprKind::kTuple, tokens_.line());
  bool comma = false;
  while (tokens_.at_operator("(") ||
         (tokens_.at(JinjaTokenType::kName) && !(comma && tokens_.at_name("in")))) {
    add(*tuple, parse_one_target(attributes));
    if (!tokens_.skip_operator(",")) break;
    comma = true;
  }
  if (tuple->args.empty()) {
    tokens_.corrupt(fmt::format("expected a name to assign to, found {}", tokens_.describe()));
  }
  return comma ? std::move(tuple) : std::move(tuple->args[0]);
}

JinjaExprPtr JinjaExpressionParser::parse_or() {
  JinjaExprPtr left = parse_and();
  while (tokens_.at_name("or")) {
    JinjaExprPtr both = make(JinjaExprKind::kOr, tokens_.take().line);
    add(*both, std::move(left));
    add(*both, parse_and());
    left = std::move(both);
  }
  return left;
}

JinjaExprPtr JinjaExpressionParser::parse_and() {
  JinjaExprPtr left = parse_not();
  while (tokens_.at_name("and")) {
    JinjaExprPtr both = make(JinjaExprKind::kAnd, tokens_.take().line);
    add(*both, std::move(left));
    add(*both, parse_not());
    left = std::move(both);
  }
  return left;
}

JinjaExprPtr JinjaExpressionParser::parse_not() {
  if (!tokens_.at_name("not")) return parse_comparison();
  const Nested nested(*this);
  JinjaExprPtr expr = make(JinjaExprKind::kNot, tokens_.take().line);
  add(*expr, parse_not());
  return expr;
}

JinjaExprPtr JinjaExpressionParser::parse_comparison() {
  JinjaExprPtr first = parse_sum();
  JinjaExprPtr expr = make(JinjaExprKind::kCompare, tokens_.line());
  while (true) {
    if (const auto op = comparison_of(tokens_.current())) {
      tokens_.take();
      expr->ops.push_back(*op);
    } else if (tokens_.skip_name("in")) {
      expr->ops.push_back(JinjaOp::kIn);
    } else if (tokens_.at_name("not") && tokens_.next().type == JinjaTokenType::kName &&
               tokens_.next().value == "in") {
      tokens_.take();
      tokens_.take();
      expr->ops.push_back(JinjaOp::kNotIn);
    } else {
      break;
    }
    if (expr->args.empty()) add(*expr, std::move(first));
    add(*expr, parse_sum());
  }
  return expr->ops.empty() ? std::move(first) : std::move(expr);
}

JinjaExprPtr JinjaExpressionParser::parse_sum() {
  JinjaExprPtr left = parse_concat();
  while (tokens_.at_operator("+") || tokens_.at_operator("-")) {
    const JinjaToken op = tokens_.take();
    JinjaExprPtr sum = make(JinjaExprKind::kArithmetic, op.line);
    sum->ops.push_back(op.value == "+" ? JinjaOp::kAdd : JinjaOp::kSub);
    add(*sum, std::move(left));
    add(*sum, parse_concat());
    left = std::move(sum);
  }
  return left;
}

JinjaExprPtr JinjaExpressionParser::parse_concat() {
  JinjaExprPtr first = parse_product();
  if (!tokens_.at_operator("~")) return first;
  JinjaExprPtr expr = make(JinjaExprKind::kConcat, tokens_.line());
  add(*expr, std::move(first));
  while (tokens_.skip_operator("~")) add(*expr, parse_product());
  return expr;
}

JinjaExprPtr JinjaExpressionParser::parse_product() {
  static constexpr std::pair<std::string_view, JinjaOp> kOps[] = {
      {"*", JinjaOp::kMul}, {"/", JinjaOp::kDiv}, {"//", JinjaOp::kFloorDiv}, {"%", JinjaOp::kMod}};
  JinjaExprPtr left = parse_power();
  while (true) {
    const auto* op = std::find_if(std::begin(kOps), std::end(kOps),
                                  [&](const auto& o) { return tokens_.at_operator(o.first); });
    if (op == std::end(kOps)) return left;
    JinjaExprPtr product = make(JinjaExprKind::kArithmetic, tokens_.take().line);
    product->ops.push_back(op->second);
    add(*product, std::move(left));
    add(*product, parse_power());
    left = std::move(product);
  }
}

JinjaExprPtr JinjaExpressionParser::parse_power() {
  JinjaExprPtr left = parse_unary(true);
  while (tokens_.at_operator("**")) {
    JinjaExprPtr power = make(JinjaExprKind::kArithmetic, tokens_.take().line);
    power->ops.push_back(JinjaOp::kPow);
    add(*power, std::move(left));
    add(*power, parse_unary(true));
    left = std::move(power);
  }
  return left;
}

JinjaExprPtr JinjaExpressionParser::parse_unary(bool filters) {
  const Nested nested(*this);
  JinjaExprPtr value;
  if (tokens_.at_operator("-") || tokens_.at_operator("+")) {
    const JinjaToken sign = tokens_.take();
    value = make(sign.value == "-" ? JinjaExprKind::kNegate : JinjaExprKind::kPositive, sign.line);
    add(*value, parse_unary(false));
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return filters ? parse_filters_and_tests(std::move(value)) : std::move(value);
}

JinjaExprPtr JinjaExpressionParser::parse_primary() {
  switch (tokens_.current().type) {
    case JinjaTokenType::kName:
      return parse_name();
    case JinjaTokenType::kString: {
      JinjaExprPtr expr = make(JinjaExprKind::kLiteral, tokens_.line());
      std::string text;
      while (tokens_.at(JinjaTokenType::kString)) text += tokens_.take().value;
      expr->literal = JinjaValue::of_text(std::move(text), true);
      return expr;
    }
    case JinjaTokenType::kInteger:
    case JinjaTokenType::kFloat:
      return parse_number();
    default:
      break;
  }
  if (tokens_.at_operator("[")) return parse_list();
  if (tokens_.at_operator("{")) return parse_dict();
  if (!tokens_.skip_operator("(")) {
    tokens_.corrupt(fmt::format("expected an expression, found {}", tokens_.describe()));
  }
  JinjaExprPtr inside = parse_tuple(true);
  tokens_.expect_operator(")");
  return inside;
}

JinjaExprPtr JinjaExpressionParser::parse_name() {
  const JinjaToken token = tokens_.take();
  const std::string& name = token.value;
  if (is_constant_name(name)) {
    JinjaExprPtr expr = make(JinjaExprKind::kLiteral, token.line);
    expr->literal = name == "none" || name == "None"
                        ? JinjaValue::none()
                        : JinjaValue::of_bool(name == "true" || name == "True");
    return expr;
  }
  JinjaExprPtr expr = make(JinjaExprKind::kName, token.line);
  expr->name = name;
  names_read_.insert(name);
  if (tokens_.at_operator("(") && is_foreign_global(name)) {
    tokens_.unsupported(fmt::format("the function '{}' is not supported", name));
  }
  return expr;
}

JinjaExprPtr JinjaExpressionParser::parse_number() {
  JinjaExprPtr expr = make(JinjaExprKind::kLiteral, tokens_.line());
  const std::string text = tokens_.current().value;
  const char* end = text.data() + text.size();
  if (tokens_.at(JinjaTokenType::kFloat)) {
    double value = 0;
    const auto result = std::from_chars(text.data(), end, value);
    if (result.ec != std::errc() || result.ptr != end) {
      tokens_.unsupported(fmt::format("the number {} is out of range", text));
    }
    expr->literal = JinjaValue::of_float(value);
  } else {
    int64_t value = 0;
    if (std::from_chars(text.data(), end, value).ec != std::errc()) {
      tokens_.unsupported(fmt::format("the number {} is beyond 64 bits", text));
    }
    expr->literal = JinjaValue::of_int(value);
  }
  tokens_.take();
  return expr;
}

JinjaExprPtr JinjaExpressionParser::parse_list() {
  JinjaExprPtr list = make(JinjaExprKind::kList, tokens_.take().line);
  while (!tokens_.at_operator("]")) {
    add(*list, parse_expression());
    if (!tokens_.skip_operator(",")) break;
  }
  tokens_.expect_operator("]");
  return list;
}

JinjaExprPtr JinjaExpressionParser::parse_dict() {
  JinjaExprPtr dict = make(JinjaExprKind::kDict, tokens_.take().line);
  while (!tokens_.at_operator("}")) {
    add(*dict, parse_expression());
    tokens_.expect_operator(":");
    add(*dict, parse_expression());
    if (!tokens_.skip_operator(",")) break;
  }
  tokens_.expect_operator("}");
  return dict;
}

JinjaExprPtr JinjaExpressionParser::parse_postfix(JinjaExprPtr value) {
  while (true) {
    if (tokens_.at_operator(".")) {
      value = parse_attribute(std::move(value));
    } else if (tokens_.at_operator("[")) {
      value = parse_subscript(std::move(value));
    } else if (tokens_.at_operator("(")) {
      value = parse_call(std::move(value));
    } else {
      return value;
    }
  }
}

JinjaExprPtr JinjaExpressionParser::parse_filters_and_tests(JinjaExprPtr value) {
  while (true) {
    if (tokens_.skip_operator("|")) {
      value = parse_filter(std::move(value));
    } else if (tokens_.at_name("is")) {
      value = parse_test(std::move(value));
    } else if (tokens_.at_operator("(")) {
      value = parse_call(std::move(value));
    } else {
      return value;
    }
  }
}

JinjaExprPtr JinjaExpressionParser::parse_attribute(JinjaExprPtr value) {
  const int line = tokens_.take().line;
  if (tokens_.at(JinjaTokenType::kInteger)) {
    JinjaExprPtr expr = make(JinjaExprKind::kSubscript, line);
    add(*expr, std::move(value));
    add(*expr, parse_number());
    return expr;
  }
  JinjaExprPtr expr = make(JinjaExprKind::kAttribute, line);
  expr->name = tokens_.expect(JinjaTokenType::kName, "an attribute").value;
  add(*expr, std::move(value));
  if (tokens_.at_operator("(") && !is_known_method(expr->name)) {
    tokens_.unsupported(fmt::format("the method '{}' is not supported", expr->name));
  }
  return expr;
}

JinjaExprPtr JinjaExpressionParser::parse_subscript(JinjaExprPtr value) {
  const int line = tokens_.take().line;
  const auto part = [&]() -> JinjaExprPtr {
    const bool absent = tokens_.at_operator(":") || tokens_.at_operator("]");
    return absent ? nullptr : parse_expression();
  };
  JinjaExprPtr first = part();
  if (!tokens_.at_operator(":")) {
    if (!first) tokens_.corrupt("an empty subscript");
    if (tokens_.at_operator(",")) tokens_.unsupported("a subscript of several values");
    JinjaExprPtr expr = make(JinjaExprKind::kSubscript, line);
    add(*expr, std::move(value));
    add(*expr, std::move(first));
    tokens_.expect_operator("]");
    return expr;
  }
  JinjaExprPtr expr = make(JinjaExprKind::kSlice, line);
  add(*expr, std::move(value));
  add(*expr, std::move(first));
  tokens_.expect_operator(":");
  add(*expr, part());
  add(*expr, tokens_.skip_operator(":") ? part() : nullptr);
  tokens_.expect_operator("]");
  return expr;
}

void JinjaExpressionParser::parse_arguments(JinjaExpr& call) {
  tokens_.expect_operator("(");
  while (!tokens_.at_operator(")")) {
    if (tokens_.at_operator("*") || tokens_.at_operator("**")) {
      tokens_.unsupported("arguments given by * or **");
    }
    const bool named = tokens_.at(JinjaTokenType::kName) &&
                       tokens_.next().type == JinjaTokenType::kOperator &&
                       tokens_.next().value == "=";
    if (named) {
      const std::string name = tokens_.take().value;
      tokens_.take();
      JinjaExprPtr value = parse_expression();
      raise_height(call, *value);
      call.named.emplace_back(name, std::move(value));
    } else {
      if (!call.named.empty()) tokens_.corrupt("a positional argument after a named one");
      add(call, parse_expression());
    }
    if (!tokens_.skip_operator(",")) break;
  }
  tokens_.expect_operator(")");
}

JinjaExprPtr JinjaExpressionParser::parse_call(JinjaExprPtr callee) {
  JinjaExprPtr call = make(JinjaExprKind::kCall, tokens_.line());
  add(*call, std::move(callee));
  parse_arguments(*call);
  return call;
}

JinjaExprPtr JinjaExpressionParser::parse_filters(JinjaExprPtr value, bool inline_first) {
  if (inline_first) value = parse_filter(std::move(value));
  while (tokens_.skip_operator("|")) value = parse_filter(std::move(value));
  return value;
}

JinjaExprPtr JinjaExpressionParser::parse_filter(JinjaExprPtr value) {
  const JinjaToken name = tokens_.expect(JinjaTokenType::kName, "a filter");
  JinjaExprPtr expr = make(JinjaExprKind::kFilter, name.line);
  expr->filter = find_jinja_filter(name.value);
  if (expr->filter == nullptr) {
    tokens_.unsupported(fmt::format("the filter '{}' is not supported", name.value));
  }
  expr->name = name.value;
  add(*expr, std::move(value));
  if (tokens_.at_operator("(")) parse_arguments(*expr);
  check_named_builtins(*expr);
  return expr;
}

void JinjaExpressionParser::check_named_builtins(const JinjaExpr& filter) const {
  const bool by_attribute = filter.name == "selectattr" || filter.name == "rejectattr";
  const bool by_test = by_attribute || filter.name == "select" || filter.name == "reject";
  const size_t at = by_attribute ? 2 : 1;
  if ((!by_test && filter.name != "map") || filter.args.size() <= at) return;
  const JinjaExpr& name = *filter.args[at];
  if (name.kind != JinjaExprKind::kLiteral || !name.literal.is_string()) return;
  const std::string& text = name.literal.bytes();
  if (by_test && find_jinja_test(text) == nullptr) {
    tokens_.unsupported(fmt::format("the test '{}' is not supported", text));
  }
  if (!by_test && find_jinja_filter(text) == nullptr) {
    tokens_.unsupported(fmt::format("the filter '{}' is not supported", text));
  }
}

JinjaExprPtr JinjaExpressionParser::parse_test(JinjaExprPtr value) {
  const int line = tokens_.take().line;
  const bool negated = tokens_.skip_name("not");
  const JinjaToken name = tokens_.expect(JinjaTokenType::kName, "a test");
  JinjaExprPtr expr = make(JinjaExprKind::kTest, line);
  expr->test = find_jinja_test(name.value);
  if (expr->test == nullptr) {
    tokens_.unsupported(fmt::format("the test '{}' is not supported", name.value));
  }
  expr->name = name.value;
  add(*expr, std::move(value));
  const JinjaTokenType type = tokens_.current().type;
  const bool word = type == JinjaTokenType::kName && !tokens_.at_name("else") &&
                    !tokens_.at_name("or") && !tokens_.at_name("and");
  if (tokens_.at_operator("(")) {
    parse_arguments(*expr);
  } else if (word || type == JinjaTokenType::kString || type == JinjaTokenType::kInteger ||
             type == JinjaTokenType::kFloat || tokens_.at_operator("[") ||
             tokens_.at_operator("{")) {
    if (tokens_.at_name("is")) tokens_.corrupt("tests cannot be chained with 'is'");
    const Nested nested(*this);
    add(*expr, parse_postfix(parse_primary()));
  }
  if (!negated) return expr;
  JinjaExprPtr inverse = make(JinjaExprKind::kNot, line);
  add(*inverse, std::move(expr));
  return inverse;
}

}  // namespace clover
