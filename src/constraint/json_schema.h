// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/json.h"
#include "constraint/json_grammar.h"

namespace clover {

// The grammar of the JSON texts that a schema (JSON Schema 2020-12, as far as docs/serving.md lists
// it) allows. Every text of the grammar is a value of the schema; not every value of the schema is
// a text of the grammar: properties come in the order of the schema, numbers and white space have
// bounds, and what the schema leaves open beside what it names is not written unless it says so.
// Error(kInvalidArgument), naming place and keyword, for what is wrong or not supported, for a
// schema that no value fits, and for one that is too large. Time and memory are bounded by the size
// of the schema.
std::shared_ptr<const JsonGrammar> compile_json_schema(const Json& schema);

}  // namespace clover
