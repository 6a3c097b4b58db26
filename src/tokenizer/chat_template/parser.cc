// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/chat_template/parser.h"

#include <array>

#include "base/error.h"
#include "tokenizer/chat_template/expression_parser.h"

namespace clover {
namespace {

using StmtPtr = std::unique_ptr<JinjaStmt>;

class StatementParser {
 public:
  explicit StatementParser(std::string_view source)
      : tokens_(jinja_tokenize(source)), expressions_(tokens_) {}

  std::unique_ptr<JinjaTemplate> run() {
    auto result = std::make_unique<JinjaTemplate>();
    result->body = parse_body({});
    result->names_read = expressions_.names_read();
    return result;
  }

 private:
  using EndWords = std::initializer_list<std::string_view>;

  StmtPtr make(JinjaStmtKind kind) const {
    auto stmt = std::make_unique<JinjaStmt>();
    stmt->kind = kind;
    stmt->line = tokens_.line();
    return stmt;
  }

  bool at_any(EndWords words) const {
    for (const std::string_view word : words) {
      if (tokens_.at_name(word)) return true;
    }
    return false;
  }

  void expect_block_end() { tokens_.expect(JinjaTokenType::kBlockEnd, "'%}'"); }

  // Statements up to a tag that begins with one of `ends` (left as the current token), or up to the
  // end of the template when there are none.
  JinjaBody parse_body(EndWords ends) {
    const JinjaExpressionParser::Nested nested(expressions_);
    JinjaBody body;
    while (true) {
      switch (tokens_.current().type) {
        case JinjaTokenType::kData:
          body.push_back(make(JinjaStmtKind::kText));
          body.back()->text = std::make_shared<MarkedText>(tokens_.take().value, true);
          break;
        case JinjaTokenType::kVariableBegin:
          body.push_back(make(JinjaStmtKind::kOutput));
          tokens_.take();
          body.back()->value = expressions_.parse_tuple(true);
          tokens_.expect(JinjaTokenType::kVariableEnd, "'}}'");
          break;
        case JinjaTokenType::kBlockBegin:
          tokens_.take();
          if (at_any(ends)) return body;
          body.push_back(parse_statement());
          expect_block_end();
          break;
        default:
          if (ends.size() == 0) return body;
          tokens_.corrupt(
              fmt::format("expected '{}', found {}", *(ends.end() - 1), tokens_.describe()));
      }
    }
  }

  // The rest of a tag, a body and the word that ends it.
  JinjaBody parse_block(std::string_view end) {
    tokens_.skip_operator(":");
    expect_block_end();
    JinjaBody body = parse_body({end});
    tokens_.take();
    return body;
  }

  // A block outside of whose body loops cannot be left.
  JinjaBody parse_closed_block(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    JinjaBody body = parse_block(end);
    loops_ = loops;
    return body;
  }

  StmtPtr parse_statement() {
    using Parse = StmtPtr (StatementParser::*)();
    static constexpr std::array<std::pair<std::string_view, Parse>, 10> kStatements = {{
        {"if", &StatementParser::parse_if},
        {"for", &StatementParser::parse_for},
        {"set", &StatementParser::parse_set},
        {"macro", &StatementParser::parse_macro},
        {"call", &StatementParser::parse_call},
        {"filter", &StatementParser::parse_filter},
        {"with", &StatementParser::parse_with},
        {"generation", &StatementParser::parse_generation},
        {"break", &StatementParser::parse_jump},
        {"continue", &StatementParser::parse_jump},
    }};
    if (!tokens_.at(JinjaTokenType::kName)) {
      tokens_.corrupt(fmt::format("expected a statement, found {}", tokens_.describe()));
    }
    for (const auto& [word, parse] : kStatements) {
      if (tokens_.at_name(word)) return (this->*parse)();
    }
    const std::string& word = tokens_.current().value;
    if (word.starts_with("end") || word == "else" || word == "elif") {
      tokens_.corrupt(fmt::format("'{}' without its beginning", word));
    }
    tokens_.unsupported(fmt::format("the statement '{}' is not supported", word));
  }

  StmtPtr parse_if() {
    StmtPtr stmt = make(JinjaStmtKind::kIf);
    while (true) {
      const bool is_else = tokens_.take().value == "else";
      JinjaBranch branch;
      if (!is_else) branch.condition = expressions_.parse_tuple(false);
      tokens_.skip_operator(":");
      expect_block_end();
      branch.body = is_else ? parse_body({"endif"}) : parse_body({"elif", "else", "endif"});
      stmt->branches.push_back(std::move(branch));
      if (tokens_.skip_name("endif")) return stmt;
    }
  }

  StmtPtr parse_for() {
    StmtPtr stmt = make(JinjaStmtKind::kFor);
    tokens_.take();
    stmt->target = expressions_.parse_target(false);
    if (!tokens_.skip_name("in")) tokens_.corrupt("expected 'in' in a for statement");
    stmt->value = expressions_.parse_tuple(false);
    if (tokens_.skip_name("if")) stmt->test = expressions_.parse_expression();
    if (tokens_.at_name("recursive")) tokens_.unsupported("recursive loops are not supported");
    tokens_.skip_operator(":");
    expect_block_end();
    ++loops_;
    stmt->body = parse_body({"else", "endfor"});
    --loops_;
    if (tokens_.take().value == "else") stmt->other = parse_block("endfor");
    return stmt;
  }

  StmtPtr parse_set() {
    StmtPtr stmt = make(JinjaStmtKind::kSet);
    tokens_.take();
    stmt->target = expressions_.parse_target(true);
    if (tokens_.skip_operator("=")) {
      stmt->value = expressions_.parse_tuple(true);
      return stmt;
    }
    stmt->kind = JinjaStmtKind::kSetBlock;
    stmt->value = expressions_.parse_filters(nullptr, false);
    stmt->body = parse_closed_block("endset");
    return stmt;
  }

  void parse_parameters(JinjaStmt& stmt) {
    tokens_.expect_operator("(");
    bool defaults = false;
    while (!tokens_.at_operator(")")) {
      std::string name = tokens_.expect(JinjaTokenType::kName, "a parameter").value;
      JinjaExprPtr value;
      if (tokens_.skip_operator("=")) {
        value = expressions_.parse_expression();
        defaults = true;
      } else if (defaults) {
        tokens_.corrupt("a parameter without a default follows one with a default");
      }
      stmt.parameters.emplace_back(std::move(name), std::move(value));
      if (!tokens_.skip_operator(",")) break;
    }
    tokens_.expect_operator(")");
  }

  StmtPtr parse_macro() {
    StmtPtr stmt = make(JinjaStmtKind::kMacro);
    tokens_.take();
    stmt->name = tokens_.expect(JinjaTokenType::kName, "a name for the macro").value;
    parse_parameters(*stmt);
    stmt->body = parse_closed_block("endmacro");
    return stmt;
  }

  StmtPtr parse_call() {
    StmtPtr stmt = make(JinjaStmtKind::kCall);
    tokens_.take();
    stmt->name = "caller";
    if (tokens_.at_operator("(")) parse_parameters(*stmt);
    stmt->value = expressions_.parse_expression();
    if (stmt->value->kind != JinjaExprKind::kCall) tokens_.corrupt("expected a call");
    stmt->body = parse_closed_block("endcall");
    return stmt;
  }

  StmtPtr parse_filter() {
    StmtPtr stmt = make(JinjaStmtKind::kFilterBlock);
    tokens_.take();
    stmt->value = expressions_.parse_filters(nullptr, true);
    stmt->body = parse_closed_block("endfilter");
    return stmt;
  }

  StmtPtr parse_with() {
    StmtPtr stmt = make(JinjaStmtKind::kWith);
    tokens_.take();
    while (!tokens_.at(JinjaTokenType::kBlockEnd)) {
      if (!stmt->parameters.empty()) tokens_.expect_operator(",");
      std::string name = tokens_.expect(JinjaTokenType::kName, "a name").value;
      tokens_.expect_operator("=");
      stmt->parameters.emplace_back(std::move(name), expressions_.parse_expression());
    }
    stmt->body = parse_block("endwith");
    return stmt;
  }

  StmtPtr parse_generation() {
    StmtPtr stmt = make(JinjaStmtKind::kScope);
    tokens_.take();
    stmt->body = parse_closed_block("endgeneration");
    return stmt;
  }

  StmtPtr parse_jump() {
    if (loops_ == 0) tokens_.corrupt(fmt::format("'{}' outside a loop", tokens_.current().value));
    const bool is_break = tokens_.at_name("break");
    StmtPtr stmt = make(is_break ? JinjaStmtKind::kBreak : JinjaStmtKind::kContinue);
    tokens_.take();
    return stmt;
  }

  JinjaTokens tokens_;
  JinjaExpressionParser expressions_;
  int loops_ = 0;  // open for statements that break and continue can reach
};

}  // namespace

std::unique_ptr<JinjaTemplate> parse_jinja(std::string_view source) {
  return StatementParser(source).run();
}

}  // namespace clover
