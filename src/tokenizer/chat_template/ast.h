// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/chat_template/value.h"

namespace clover {

struct JinjaFilter;
struct JinjaTest;
struct JinjaExpr;
struct JinjaStmt;
using JinjaExprPtr = std::unique_ptr<JinjaExpr>;
using JinjaBody = std::vector<std::unique_ptr<JinjaStmt>>;

enum class JinjaExprKind {
  kLiteral,      // literal
  kName,         // name
  kList,         // args
  kTuple,        // args; also an assignment target
  kDict,         // args: key, value, key, value, …
  kAttribute,    // args[0] . name; as an assignment target args[0] is a name
  kSubscript,    // args[0] [ args[1] ]
  kSlice,        // args[0] [ args[1] : args[2] : args[3] ], absent ones null
  kCall,         // args[0] ( args[1…], named )
  kFilter,       // args[0] | filter ( args[1…], named ); args[0] is null in a filter block
  kTest,         // args[0] is test ( args[1…] )
  kConditional,  // args[1] if args[0] else args[2]; args[2] may be null
  kOr,           // args[0] or args[1]
  kAnd,          // args[0] and args[1]
  kNot,          // not args[0]
  kNegate,       // - args[0]
  kPositive,     // + args[0]
  kCompare,      // args[0] ops[0] args[1] ops[1] args[2] …
  kConcat,       // args[0] ~ args[1] ~ …
  kArithmetic,   // args[0] ops[0] args[1]
};

enum class JinjaOp {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kIn,
  kNotIn
};

struct JinjaExpr {
  JinjaExprKind kind = JinjaExprKind::kLiteral;
  int line = 0;
  int height = 1;  // of the tree below, bounded by the parser
  std::string name;
  JinjaValue literal;
  std::vector<JinjaExprPtr> args;
  std::vector<std::pair<std::string, JinjaExprPtr>> named;
  std::vector<JinjaOp> ops;
  const JinjaFilter* filter = nullptr;
  const JinjaTest* test = nullptr;
};

enum class JinjaStmtKind {
  kText,         // text
  kOutput,       // value
  kIf,           // branches; the last may have a null condition (else)
  kFor,          // for target in value if test: body, else other
  kSet,          // target = value
  kSetBlock,     // target = body through value (a filter chain or null)
  kMacro,        // name ( parameters ): body
  kCall,         // value with caller ( parameters ): body
  kFilterBlock,  // body through value (a filter chain)
  kScope,        // body in its own scope
  kWith,         // parameters' values set in a scope of their own: body
  kBreak,
  kContinue,
};

struct JinjaBranch {
  JinjaExprPtr condition;
  JinjaBody body;
};

struct JinjaStmt {
  JinjaStmtKind kind = JinjaStmtKind::kText;
  int line = 0;
  std::string name;
  std::shared_ptr<const MarkedText> text;
  JinjaExprPtr target;
  JinjaExprPtr value;
  JinjaExprPtr test;
  JinjaBody body;
  JinjaBody other;
  std::vector<JinjaBranch> branches;
  std::vector<std::pair<std::string, JinjaExprPtr>> parameters;  // with defaults or null
};

// A parsed template.
struct JinjaTemplate {
  JinjaBody body;
  std::set<std::string> names_read;
};

}  // namespace clover
