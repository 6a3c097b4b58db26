// SPDX-License-Identifier: Apache-2.0
#include "constraint/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "constraint/number_bounds.h"
#include "constraint/rule_heights.h"
#include "constraint/schema_object.h"

namespace clover {
namespace {

using Kind = ValueRule::Kind;
// Which of JSON's types a schema may have values of, a bit each.
using TypeSet = uint32_t;

constexpr size_t kMaxRules = 4096;
constexpr size_t kMaxWordBytes = 65536;
constexpr TypeSet kAnyType = 0x3f;

TypeSet type_bit(std::string_view name) {
  if (name == "null") return 1;
  if (name == "boolean") return 2;
  if (name == "integer" || name == "number") return 4;
  if (name == "string") return 8;
  return name == "array" ? 16 : 32;
}

TypeSet type_of(const Json& value) {
  if (value.is_null()) return 1;
  if (value.is_boolean()) return 2;
  if (value.is_number()) return 4;
  if (value.is_string()) return 8;
  return value.is_array() ? 16 : 32;
}

bool is_whole(const Json& value) {
  return value.is_number_integer() ||
         (value.is_number() && value.get<double>() == std::floor(value.get<double>()));
}

bool has_type(const Json& value, const std::string& type) {
  if ((type_of(value) & type_bit(type)) == 0) return false;
  return type != "integer" || is_whole(value);
}

const std::vector<std::string_view> kObjectWords = {"properties", "required",
                                                    "additionalProperties"};
const std::vector<std::string_view> kArrayWords = {"items", "prefixItems", "minItems", "maxItems"};
const std::vector<std::string_view> kStringWords = {"minLength", "maxLength"};
const std::vector<std::string_view> kNumberWords = {"minimum", "maximum", "exclusiveMinimum",
                                                    "exclusiveMaximum"};

// Builds the rules one schema after the other, never one inside the other: however deep a schema
// nests and whatever it refers to, the stack stays as it is.
class Compiler {
 public:
  explicit Compiler(const Json& schema) : schema_(schema) {}

  std::shared_ptr<const JsonGrammar> compile() {
    const int32_t root = want(schema_, -1, {});
    while (!jobs_.empty()) {
      const Job job = jobs_.front();
      jobs_.pop_front();
      build(job);
    }
    flatten_choices();
    for (const auto& [rule, place] : exclusive_) check_exclusive(rule, place);
    find_heights(grammar_->rules);
    grammar_->root = root;
    if (grammar_->rule(root).height == ValueRule::kNoHeight)
      fail(ErrorCode::kInvalidArgument,
           "no value fits the schema, or none that nests at most {} objects and arrays",
           kMaxJsonDepth);
    return std::move(grammar_);
  }

 private:
  struct Job {
    const Json* schema;
    int32_t rule;
    int32_t place;
  };

  ValueRule& rule(int32_t number) { return grammar_->rules[static_cast<size_t>(number)]; }

  int32_t new_rule(int32_t place, TypeSet types) {
    if (grammar_->rules.size() == kMaxRules)
      fail(ErrorCode::kInvalidArgument, "the schema is too large: it has more than {} parts",
           kMaxRules);
    grammar_->rules.emplace_back();
    types_.push_back(types);
    place_of_.push_back(place);
    return static_cast<int32_t>(grammar_->rules.size()) - 1;
  }

  // The rule of a schema: there is one for each, to be built later.
  int32_t want(const Json& schema, int32_t parent, std::string_view key) {
    const auto known = rule_of_.find(&schema);
    if (known != rule_of_.end()) return known->second;
    const int32_t place = places_.add(parent, key);
    const int32_t number = new_rule(place, kAnyType);
    rule_of_[&schema] = number;
    jobs_.push_back({&schema, number, place});
    return number;
  }

  // Any value at all.
  int32_t any() {
    if (any_ >= 0) return any_;
    any_ = new_rule(-1, kAnyType);
    std::vector<int32_t> items;
    for (const char* type : {"object", "array", "string", "number", "boolean", "null"}) {
      const int32_t number = new_rule(-1, kAnyType);
      items.push_back(number);
      ValueRule& made = rule(number);
      made.rest = any_;
      made.next_required = {0};
      set_kind(made, type);
    }
    rule(any_).kind = Kind::kChoice;
    rule(any_).items = std::move(items);
    return any_;
  }

  void set_kind(ValueRule& made, std::string_view type) {
    if (type == "object") made.kind = Kind::kObject;
    if (type == "array") made.kind = Kind::kArray;
    if (type == "string") made.kind = Kind::kString;
    if (type == "number" || type == "integer") made.kind = Kind::kNumber;
    if (type == "integer") bound_number(made, true, {});
    if (type == "boolean") add_words(made, {"false", "true"});
    if (type == "null") add_words(made, {"null"});
  }

  void add_words(ValueRule& made, const std::vector<std::string>& words) {
    made.kind = Kind::kLiteral;
    for (const std::string& word : words) add_word(made, word);
  }

  void add_word(ValueRule& made, std::string_view word) {
    word_bytes_ += word.size();
    if (word_bytes_ > kMaxWordBytes)
      fail(ErrorCode::kInvalidArgument,
           "the schema is too large: its names and values have more than {} bytes", kMaxWordBytes);
    made.words.add(word, next_word_++);
  }

  void build(const Job& job) {
    if (job.schema->is_boolean()) {
      if (!job.schema->get<bool>()) types_[static_cast<size_t>(job.rule)] = 0;
      if (job.schema->get<bool>()) become_choice(job.rule, {any()});
      return;
    }
    if (!job.schema->is_object())
      fail(ErrorCode::kInvalidArgument, "the schema at {} must be an object or a boolean",
           places_.text(job.place));
    const SchemaObject schema(*job.schema, places_, job.place);
    if (schema.has("$ref")) return build_reference(schema, job.rule);
    for (const char* keyword : {"anyOf", "oneOf", "allOf"})
      if (schema.has(keyword)) return build_choice(schema, keyword, job.rule);
    if (schema.has("enum") || schema.has("const")) return build_values(schema, job.rule);
    build_types(schema, job.rule);
  }

  void become_choice(int32_t number, std::vector<int32_t> items) {
    rule(number).kind = Kind::kChoice;
    rule(number).items = std::move(items);
  }

  void build_reference(const SchemaObject& schema, int32_t number) {
    schema.allow_only({"$ref"}, "$ref");
    const Json& pointer = *schema.find("$ref");
    const Json* target = pointer.is_string()
                             ? find_reference(schema_, pointer.get_ref<const std::string&>())
                             : nullptr;
    if (target == nullptr)
      schema.refuse("$ref", "must name a part of this schema, such as #/$defs/name");
    become_choice(number, {want(*target, schema.place(), "$ref")});
  }

  void build_choice(const SchemaObject& schema, const std::string& keyword, int32_t number) {
    schema.allow_only({keyword}, keyword);
    const Json& list = *schema.list(keyword);
    if (keyword == "allOf" && list.size() != 1)
      schema.refuse("allOf", "is supported with a single schema only");
    if (list.size() > static_cast<size_t>(kMaxAlternatives))
      schema.refuse(keyword, fmt::format("has more than {} alternatives", kMaxAlternatives));
    const int32_t place = places_.add(schema.place(), keyword);
    std::vector<int32_t> items;
    for (size_t i = 0; i < list.size(); ++i)
      items.push_back(want(list[i], place, std::to_string(i)));
    if (keyword == "oneOf") exclusive_.emplace_back(items, schema.place());
    become_choice(number, std::move(items));
  }

  void build_values(const SchemaObject& schema, int32_t number) {
    schema.allow_only({"enum", "const", "type"}, schema.has("enum") ? "enum" : "const");
    std::vector<std::string> words;
    const std::vector<std::string> types = schema.types();
    TypeSet seen = 0;
    const auto add = [&](const Json& value) {
      const bool typed = types.empty() || std::ranges::any_of(types, [&](const std::string& type) {
                           return has_type(value, type);
                         });
      const Json* only = schema.find("const");
      if (!typed || (only != nullptr && *only != value)) return;
      words.push_back(json_line(value));
      seen |= type_of(value);
    };
    if (schema.has("enum")) {
      for (const Json& value : *schema.list("enum")) add(value);
    } else {
      add(*schema.find("const"));
    }
    types_[static_cast<size_t>(number)] = seen;
    if (!words.empty()) add_words(rule(number), words);
  }

  // Without the keyword `type`: the types that other keywords speak of, or all.
  std::vector<std::string> types_meant(const SchemaObject& schema) {
    std::vector<std::string> types = schema.types();
    if (!types.empty()) return types;
    if (schema.has_any(kObjectWords)) types.emplace_back("object");
    if (schema.has_any(kArrayWords)) types.emplace_back("array");
    if (schema.has_any(kStringWords)) types.emplace_back("string");
    if (schema.has_any(kNumberWords)) types.emplace_back("number");
    return types;
  }

  void build_types(const SchemaObject& schema, int32_t number) {
    std::vector<std::string> types = types_meant(schema);
    if (types.empty()) return become_choice(number, {any()});
    if (std::ranges::find(types, "number") != types.end()) std::erase(types, "integer");
    if (schema.flag("nullable") && std::ranges::find(types, "null") == types.end())
      types.emplace_back("null");
    const auto types_of = [&](const std::string& type) {
      return schema.has("type") ? type_bit(type) : kAnyType;
    };
    if (types.size() == 1) {
      types_[static_cast<size_t>(number)] = types_of(types[0]);
      return build_type(schema, types[0], number);
    }
    std::vector<int32_t> items;
    for (const std::string& type : types) {
      items.push_back(new_rule(schema.place(), types_of(type)));
      build_type(schema, type, items.back());
    }
    become_choice(number, std::move(items));
  }

  void build_type(const SchemaObject& schema, const std::string& type, int32_t number) {
    set_kind(rule(number), type);
    if (type == "object") build_object(schema, number);
    if (type == "array") build_array(schema, number);
    if (type == "string") set_sizes(schema, rule(number), "minLength", "maxLength");
    if (type == "number" || type == "integer")
      bound_number(rule(number), type == "integer", read_bounds(schema));
  }

  NumberBounds read_bounds(const SchemaObject& schema) {
    return {schema.number("minimum"), schema.number("maximum"), schema.number("exclusiveMinimum"),
            schema.number("exclusiveMaximum")};
  }

  void set_sizes(const SchemaObject& schema, ValueRule& made, const char* min, const char* max) {
    made.min = schema.count(min, -1).value_or(0);
    made.max = schema.count(max, ValueRule::kUnbounded).value_or(ValueRule::kUnbounded);
    if (made.max < made.min) made.kind = Kind::kNever;
  }

  void build_array(const SchemaObject& schema, int32_t number) {
    set_sizes(schema, rule(number), "minItems", "maxItems");
    std::vector<int32_t> first;
    if (const Json* list = schema.list("prefixItems")) {
      const int32_t place = places_.add(schema.place(), "prefixItems");
      for (size_t i = 0; i < list->size(); ++i)
        first.push_back(want((*list)[i], place, std::to_string(i)));
    }
    const Json* items = schema.find("items");
    if (items != nullptr && items->is_array())
      schema.refuse("items", "must be a schema; a list of schemas is 'prefixItems'");
    const bool more = first.empty() || rule(number).min > std::ssize(first);
    int32_t rest = -1;
    if (items != nullptr) rest = want(*items, schema.place(), "items");
    if (items == nullptr && more) rest = any();
    rule(number).items = std::move(first);
    rule(number).rest = rest;
  }

  void build_object(const SchemaObject& schema, int32_t number) {
    const Json* declared = schema.object("properties");
    const Json* further = schema.find("additionalProperties");
    int32_t rest = -1;
    if (further != nullptr) rest = want(*further, schema.place(), "additionalProperties");
    if (further == nullptr && declared == nullptr) rest = any();
    std::vector<std::pair<std::string, int32_t>> properties;
    std::unordered_map<std::string, size_t> number_of;
    if (declared != nullptr) {
      const int32_t place = places_.add(schema.place(), "properties");
      for (const auto& item : declared->items()) {
        number_of.emplace(item.key(), properties.size());
        properties.emplace_back(item.key(), want(item.value(), place, item.key()));
      }
    }
    std::unordered_set<std::string> required;
    if (const Json* names = schema.find("required")) {
      if (!names->is_array()) schema.refuse("required", "must be a list of names");
      for (const Json& name : *names) {
        if (!name.is_string()) schema.refuse("required", "must be a list of names");
        required.insert(name.get<std::string>());
        if (!number_of.emplace(name.get<std::string>(), properties.size()).second) continue;
        properties.emplace_back(name.get<std::string>(), further != nullptr ? rest : any());
      }
    }
    set_properties(rule(number), properties, required);
    rule(number).rest = rest;
  }

  void set_properties(ValueRule& made,
                      const std::vector<std::pair<std::string, int32_t>>& properties,
                      const std::unordered_set<std::string>& required) {
    const auto count = static_cast<int32_t>(properties.size());
    next_word_ = 0;
    for (const auto& [name, value] : properties) {
      made.properties.push_back({value, required.contains(name)});
      const std::string word = json_line(Json(name));
      add_word(made, std::string_view(word).substr(1, word.size() - 2));
    }
    made.next_required.assign(properties.size() + 1, count);
    for (int32_t i = count - 1; i >= 0; --i) {
      const auto at = static_cast<size_t>(i);
      made.next_required[at] = made.properties[at].required ? i : made.next_required[at + 1];
    }
  }

  // The alternatives of a choice that are no choices themselves.
  std::vector<int32_t> alternatives(int32_t number) {
    std::vector<int32_t> found;
    std::vector<int32_t> open = {number};
    seen_.resize(grammar_->rules.size(), -1);
    seen_[static_cast<size_t>(number)] = ++searches_;
    while (!open.empty()) {
      const int32_t at = open.back();
      open.pop_back();
      if (rule(at).kind != Kind::kChoice) {
        found.push_back(at);
        if (std::ssize(found) <= kMaxAlternatives) continue;
        fail(ErrorCode::kInvalidArgument, "the schema at {} has more than {} alternatives",
             places_.text(place_of_[static_cast<size_t>(number)]), kMaxAlternatives);
      }
      const std::vector<int32_t>& items = rule(at).items;
      for (auto it = items.rbegin(); it != items.rend(); ++it) {
        int32_t& seen = seen_[static_cast<size_t>(*it)];
        if (seen != searches_) open.push_back(*it);
        seen = searches_;
      }
    }
    return found;
  }

  void flatten_choices() {
    std::vector<std::pair<int32_t, std::vector<int32_t>>> flat;
    for (int32_t i = 0; i < std::ssize(grammar_->rules); ++i)
      if (rule(i).kind == Kind::kChoice) flat.emplace_back(i, alternatives(i));
    for (auto& [number, items] : flat) rule(number).items = std::move(items);
  }

  // Of schemas that exclude each other it has to be plain that they do: no type in common.
  void check_exclusive(const std::vector<int32_t>& items, int32_t place) {
    TypeSet all = 0;
    for (const int32_t item : items) {
      TypeSet types = 0;
      for (const int32_t one : alternatives(item)) types |= types_[static_cast<size_t>(one)];
      if ((all & types) != 0)
        places_.refuse(place, "oneOf",
                       "is supported only where no two of its schemas share a type; use anyOf");
      all |= types;
    }
  }

  const Json& schema_;
  std::shared_ptr<JsonGrammar> grammar_ = std::make_shared<JsonGrammar>();
  SchemaPlaces places_;
  std::deque<Job> jobs_;
  std::unordered_map<const Json*, int32_t> rule_of_;
  std::vector<TypeSet> types_;                                       // [rules]
  std::vector<int32_t> place_of_;                                    // [rules]
  std::vector<std::pair<std::vector<int32_t>, int32_t>> exclusive_;  // oneOf: rules, place
  std::vector<int32_t> seen_;  // [rules]: the last search for alternatives that came by
  int32_t searches_ = 0;
  int32_t any_ = -1;
  int32_t next_word_ = 0;
  size_t word_bytes_ = 0;
};

}  // namespace

std::shared_ptr<const JsonGrammar> compile_json_schema(const Json& schema) {
  return Compiler(schema).compile();
}

}  // namespace clover
