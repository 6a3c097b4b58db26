// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tokenizer/chat_template/marked_text.h"

namespace clover {

struct JinjaList;
struct JinjaDict;
struct JinjaMacro;
struct JinjaMethod;
struct JinjaLoop;
struct JinjaFunction;

enum class JinjaType {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kIterator,  // what filters like map give: always true, without length, read once
  kDict,
  kNamespace,
  kMacro,     // a template's own macro
  kFunction,  // a global function
  kMethod,    // a method with the value it belongs to
  kLoop,      // the `loop` variable
};

// One value of a running template. Strings are shared and immutable; every other composite lives in
// the JinjaHeap of the rendering, so that cycles can neither leak nor recurse in destructors.
struct JinjaValue {
  JinjaType type = JinjaType::kUndefined;
  // For None, bool, int and float: whether its printed form is trusted.
  bool trusted = true;
  // For strings: escaped or declared safe, so that + escapes what it is joined with.
  bool markup = false;
  union {
    bool boolean;
    int64_t integer = 0;
    double number;
    JinjaList* list;  // kList, kTuple and kIterator
    JinjaDict* dict;  // kDict and kNamespace
    const JinjaMacro* macro;
    const JinjaMethod* method;
    const JinjaLoop* loop;
    const JinjaFunction* function;
  };
  // kString: the text. kUndefined: the name that was looked up, or null.
  std::shared_ptr<const MarkedText> text;

  static JinjaValue undefined(std::string name);
  static JinjaValue none(bool trusted = true);
  static JinjaValue of_bool(bool value, bool trusted = true);
  static JinjaValue of_int(int64_t value, bool trusted = true);
  static JinjaValue of_float(double value, bool trusted = true);
  static JinjaValue of_text(MarkedText value);
  static JinjaValue of_text(std::string value, bool trusted);

  bool is(JinjaType other) const { return type == other; }
  bool is_undefined() const { return type == JinjaType::kUndefined; }
  bool is_none() const { return type == JinjaType::kNone; }
  bool is_string() const { return type == JinjaType::kString; }
  bool is_sequence() const { return type == JinjaType::kList || type == JinjaType::kTuple; }
  bool is_dict() const { return type == JinjaType::kDict; }
  // int or bool, which Python treats as an int.
  bool is_integral() const { return type == JinjaType::kInt || type == JinjaType::kBool; }
  bool is_number() const { return is_integral() || type == JinjaType::kFloat; }
  bool is_callable() const;
  int64_t as_int() const { return type == JinjaType::kBool ? boolean : integer; }
  double as_double() const;
  const std::string& bytes() const { return text->bytes(); }
  // "str", "int", "dict", … as Python names the type, for messages.
  std::string_view type_name() const;
};

struct JinjaList {
  std::vector<JinjaValue> items;
};

// Keys keep their order of insertion. Numbers that are equal are the same key.
struct JinjaDict {
  std::vector<std::pair<JinjaValue, JinjaValue>> items;
  std::unordered_map<std::string, size_t> index;

  // Null when absent; `key` must be a scalar (see dict_key).
  const JinjaValue* find(const JinjaValue& key) const;
  const JinjaValue* find(std::string_view key) const;
  void set(const JinjaValue& key, JinjaValue value);
};

// A method looked up on a value, like `message.items`.
struct JinjaMethod {
  JinjaValue self;
  std::string name;
};

// Whether a value can be a key: a string, number, bool, None or a flat tuple of these.
bool is_hashable(const JinjaValue& value);
// Equal exactly for equal keys.
std::string dict_key(const JinjaValue& value);

}  // namespace clover
