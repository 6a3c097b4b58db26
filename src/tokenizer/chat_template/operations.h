// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "tokenizer/chat_template/ast.h"
#include "tokenizer/chat_template/context.h"

namespace clover {

// Python's operators on template values. Where Python raises, these throw
// Error(kInvalidArgument) with the line.

bool is_true(const JinjaValue& value);
bool equal(JinjaContext& context, const JinjaValue& a, const JinjaValue& b);
// Strings by code point, numbers, lists and tuples item by item.
std::partial_ordering compare(JinjaContext& context, const JinjaValue& a, const JinjaValue& b);
bool contains(JinjaContext& context, const JinjaValue& container, const JinjaValue& item);
bool compare_with(JinjaContext& context, JinjaOp op, const JinjaValue& a, const JinjaValue& b);
JinjaValue arithmetic(JinjaContext& context, JinjaOp op, const JinjaValue& a, const JinjaValue& b);
JinjaValue negate(JinjaContext& context, const JinjaValue& value);

// The items that iterating gives: characters, list items, keys of a dict, nothing for undefined.
std::vector<JinjaValue> items_of(JinjaContext& context, const JinjaValue& value);
// len(value), in characters for strings.
int64_t length_of(JinjaContext& context, const JinjaValue& value);
// value.name and value[key]; undefined when there is none.
JinjaValue get_attribute(JinjaContext& context, const JinjaValue& value, const std::string& name);
JinjaValue get_item(JinjaContext& context, const JinjaValue& value, const JinjaValue& key);
// value[start:stop:step] with null for absent parts.
JinjaValue get_slice(JinjaContext& context, const JinjaValue& value,
                     const JinjaValue* const* parts);

// "users.0.name" as the `attribute` parameter of filters: a path of keys.
JinjaValue get_path(JinjaContext& context, JinjaValue value, const JinjaValue& path);

}  // namespace clover
