// SPDX-License-Identifier: Apache-2.0
// Schemas: what their grammars accept, and what is refused. Documents and verdicts of the random
// cases are those of the `jsonschema` package (tools/make_constraint_cases.py).
#include "constraint/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <string>
#include <string_view>

#include "base/error.h"
#include "constraint/json_machine.h"

namespace clover {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Whether the whole text is one of the grammar's.
bool accepts(const JsonGrammar& grammar, std::string_view text) {
  const JsonMachine machine(grammar);
  StackSet now;
  StackSet next;
  machine.start(now);
  for (const char c : text) {
    if (!machine.step(now, static_cast<uint8_t>(c), next)) return false;
    std::swap(now, next);
  }
  return machine.complete(now);
}

std::shared_ptr<const JsonGrammar> compiled(std::string_view schema) {
  return compile_json_schema(parse_json(schema, "the schema"));
}

void expect(std::string_view schema, const std::vector<std::string>& right,
            const std::vector<std::string>& wrong) {
  const auto grammar = compiled(schema);
  for (const std::string& text : right)
    EXPECT_TRUE(accepts(*grammar, text)) << schema << " " << text;
  for (const std::string& text : wrong)
    EXPECT_FALSE(accepts(*grammar, text)) << schema << " " << text;
}

// The message of the error that the schema is refused with.
std::string refusal_of(const Json& schema) {
  try {
    compile_json_schema(schema);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  ADD_FAILURE() << "not refused: " << schema.dump().substr(0, 200);
  return {};
}

std::string refusal(std::string_view schema) {
  return refusal_of(parse_json(schema, "the schema"));
}

TEST(JsonSchema, Types) {
  expect(R"({"type":"null"})", {"null"}, {"nul", "nulll", " null", "null ", "true", ""});
  expect(R"({"type":"boolean"})", {"true", "false"}, {"truefalse", "0", "null"});
  expect(R"({"type":"integer"})", {"0", "7", "-12", "999999999999999"},
         {"-0", "01", "1.0", "1e2", "--1", "-", "", "1000000000000000", "+1"});
  expect(R"({"type":"number"})", {"0", "-0", "1.5", "-0.25e-3", "1e10", "1E+5", "0.000"},
         {".5", "1.", "1e", "1e+", "00", "1e100", "NaN", "1.5.2", "-"});
  expect(R"({"type":"string"})", {R"("")", R"("a b")", R"("\n\"\\\u00e9")", "\"\xc3\xa9\""},
         {"\"", R"("a)", R"("\x")", R"("\ud800")", "\"\n\"", "\"\xc3\"", "\"\xff\"",
          "\"\xed\xa0\x80\"", R"("\u12")", R"("a"b)", "\"\xc0\x80\""});
  expect(R"({"type":["string","null"]})", {"null", R"("x")"}, {"1", "true"});
  expect(R"({"type":"string","nullable":true})", {"null", R"("x")"}, {"1"});
  expect(R"({"type":["integer","number"]})", {"1", "1.5"}, {"\"1\""});
  for (const char* any : {"{}", "true", R"({"title":"x","description":"y"})"})
    expect(any, {"null", "1", "\"x\"", "[]", "{}", R"([1, {"a": [true, null]}])"},
           {"", "[", "[1,]"});
}

TEST(JsonSchema, Objects) {
  const char* schema = R"({"type":"object","properties":{"a":{"type":"integer"},
    "b":{"type":"string"},"c":{"type":"boolean"}},"required":["b"],"additionalProperties":false})";
  expect(schema,
         {R"({"a":1,"b":"x","c":true})", R"({"b":"x"})", R"({"a": 1, "b": "x"})",
          "{\n  \"b\": \"x\",\n  \"c\": true\n}", R"({ "b":"x" })"},
         {R"({"a":1})", "{}", R"({"b":"x","a":1})", R"({"b":"x","d":1})", R"({"b":"x",})",
          R"({"b":"x","b":"x"})", R"({"b":1})", R"({,"b":"x"})", R"({"b" :"x"})", R"({"b":"x"}})",
          R"({"b":  "x"})", "{\n\n\"b\":\"x\"}", "{\n     \"b\":\"x\"}", R"({"b":"x" ,"c":true})"});
  expect(R"({"type":"object","properties":{"a":{}}})", {"{}", R"({"a":[{}]})"}, {R"({"b":1})"});
  expect(R"({"properties":{"a":{}},"additionalProperties":{"type":"integer"}})",
         {R"({"a":"x","b":1,"ab":2})", R"({"é":1})", R"({"":1})", R"({"b":1,"a":0})"},
         {R"({"b":"x"})", R"({"\u0061":1})", R"({"b\n":1})", R"({"a":1,"a":2})", "[]"});
  expect(R"({"type":"object"})", {"{}", R"({"x":{"y":[]}})"}, {"[]", "1"});
  expect(R"({"type":"object","properties":{}})", {"{}", "{ }"}, {R"({"x":1})"});
  expect(R"({"type":"object","required":["x","y"]})",
         {R"({"x":1,"y":2})", R"({"x":1,"y":2,"z":3})"}, {R"({"x":1})", "{}"});
  expect(R"({"properties":{"a":false,"b":true}})", {"{}", R"({"b":1})"}, {R"({"a":1})"});
  expect(R"({"properties":{"a":false},"additionalProperties":true})", {R"({"b":1})"},
         {R"({"a":1})"});
  expect(R"({"properties":{"q\"\n":{"const":1},"\\":{"const":2}}})", {R"({"q\"\n":1,"\\":2})"}, {});
  expect(R"({"properties":{"":{"const":1}},"required":[""]})", {R"({"":1})"}, {"{}"});
}

TEST(JsonSchema, Arrays) {
  expect(R"({"type":"array","items":{"type":"integer"}})", {"[]", "[1]", "[1,2, 3]", "[\n    1\n]"},
         {"[1,]", "[,1]", "[\"a\"]", "[1 2]", "[", "[1"});
  expect(R"({"items":{"type":"integer"},"minItems":2,"maxItems":3})", {"[1,2]", "[1,2,3]"},
         {"[]", "[1]", "[1,2,3,4]"});
  expect(R"({"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}]})",
         {"[]", R"(["a"])", R"(["a",1])"}, {R"(["a",1,2])", "[1]"});
  expect(R"({"prefixItems":[{"type":"string"}],"items":{"type":"null"},"minItems":2})",
         {R"(["a",null])", R"(["a",null,null])"}, {R"(["a"])", R"(["a",1])"});
  expect(R"({"type":"array","prefixItems":[{"type":"string"}],"items":false})", {R"(["a"])"},
         {R"(["a",1])"});
  expect(R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"});
  expect(R"({"type":"array","maxItems":1000000000})", {"[]", "[1,2]"}, {});
  expect(R"({"type":"array","uniqueItems":false})", {"[1,1]"}, {});
}

TEST(JsonSchema, StringsAndNumbersWithBounds) {
  expect(R"({"type":"string","minLength":2,"maxLength":3})",
         {R"("ab")", R"("abc")", "\"\xf0\x9f\x98\x80\xc3\xa9\"", R"("\n\u0041")"},
         {R"("a")", R"("abcd")", "\"\xf0\x9f\x98\x80\""});
  expect(R"({"type":"string","maxLength":0})", {R"("")"}, {R"("a")"});
  expect(R"({"type":"integer","minimum":-3,"maximum":12})", {"-3", "-1", "0", "9", "10", "12"},
         {"-4", "13", "99", "-10", "120", "-0"});
  expect(R"({"type":"integer","exclusiveMinimum":9,"exclusiveMaximum":101})", {"10", "55", "100"},
         {"9", "1", "101"});
  expect(R"({"type":"integer","minimum":0.5,"maximum":2.5})", {"1", "2"}, {"0", "3"});
  expect(R"({"type":"integer","minimum":1000000000000000})", {"1000000000000000"}, {"5"});
  expect(R"({"type":"number","minimum":0,"maximum":1})", {"0", "1", "0.5", "0.000001", "1.000000"},
         {"1.000001", "-0.1", "1e0", "2", "0.0000001", "10", "-0"});
  expect(R"({"type":"number","exclusiveMinimum":0.1})", {"0.100001", "0.2", "7"},
         {"0.1", "0.10", "0"});
  expect(R"({"type":"number","minimum":-2.5,"maximum":-1.25})", {"-2.5", "-1.25", "-2"},
         {"-2.6", "-1.2", "0", "2", "-1"});
  expect(R"({"type":"number","maximum":1e12})", {"-5.5", "8999999999"}, {"9999999999"});
}

TEST(JsonSchema, ValuesAndAlternatives) {
  expect(R"({"enum":["a","ab",1,12,null,{"k":[1]}]})",
         {R"("a")", R"("ab")", "1", "12", "null", R"({"k":[1]})"}, {R"("abc")", "2", "11", "121"});
  expect(R"({"type":"string","enum":["a",1]})", {R"("a")"}, {"1"});
  expect(R"({"type":"integer","enum":[1,1.5,2.0]})", {"1", "2.0"}, {"1.5"});
  expect(R"({"const":"é\"\n"})", {"\"\xc3\xa9\\\"\\n\""}, {});
  expect(R"({"anyOf":[{"type":"string"},{"type":"integer"},{"type":"string","maxLength":1}]})",
         {"\"abc\"", "1"}, {"1.5", "null"});
  expect(R"({"anyOf":[{"properties":{"a":{"const":1},"b":{}},"required":["a","b"]},
                      {"properties":{"a":{"const":12}}}]})",
         {R"({"a":1,"b":2})", R"({"a":12})", "{}"}, {R"({"a":1})", R"({"a":12,"b":1})"});
  expect(R"({"oneOf":[{"type":"string"},{"type":["null","array"]},{"enum":[1,2]}]})",
         {"\"a\"", "null", "[]", "2"}, {"3", "{}"});
  expect(R"({"type":"array","items":{"enum":[1,12,123]}})", {"[1,12,123]", "[12]"},
         {"[1234]", "[11]"});
}

TEST(JsonSchema, References) {
  const char* tree = R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":
    {"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},
    "required":["v","next"],"additionalProperties":false}}})";
  expect(tree, {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"},
         {R"({"v":1})", R"({"v":1,"next":1})"});
  std::string deep;
  for (int i = 0; i < kMaxJsonDepth; ++i) deep += R"({"v":1,"next":)";
  EXPECT_FALSE(accepts(*compiled(tree), deep + R"({"v":1,"next":null})" + std::string(33, '}')));
  EXPECT_TRUE(accepts(*compiled(tree), deep + "null" + std::string(32, '}')));
  expect(R"({"items":{"$ref":"#"},"type":"array"})", {"[]", "[[],[[]]]"}, {"[1]"});
  expect(R"({"$ref":"#/definitions/a~1b~0","definitions":{"a/b~":{"const":1}},"title":"t"})", {"1"},
         {"2"});
  expect(R"({"allOf":[{"$ref":"#/$defs/x"}],"default":1,"$defs":{"x":{"type":"integer"}}})", {"1"},
         {"\"a\""});
  // The same schema in two places, and a choice that leads back to itself.
  expect(R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", {"null"}, {"1"});
}

TEST(JsonSchema, RefusalsNameThePlaceAndTheKeyword) {
  for (const char* keyword :
       {"pattern", "format", "not", "if", "patternProperties", "propertyNames", "minProperties",
        "contains", "dependentRequired", "unevaluatedProperties", "$dynamicRef", "made-up"}) {
    const Json schema = {{"type", "object"},
                         {"properties", {{"a", {{"type", "array"}, {"items", {{keyword, 1}}}}}}}};
    EXPECT_EQ(refusal_of(schema),
              fmt::format("the schema at #/properties/a/items: '{}' is not supported", keyword));
  }
  EXPECT_THAT(refusal(R"({"multipleOf":2})"), HasSubstr("'multipleOf' is not supported"));
  EXPECT_THAT(refusal(R"({"uniqueItems":true})"), HasSubstr("'uniqueItems'"));
  EXPECT_THAT(refusal(R"({"type":"text"})"), HasSubstr("#: 'type'"));
  EXPECT_THAT(refusal(R"({"type":[]})"), HasSubstr("'type'"));
  EXPECT_THAT(refusal(R"({"type":5})"), HasSubstr("'type'"));
  EXPECT_THAT(refusal(R"({"items":5})"), HasSubstr("#/items must be an object or a boolean"));
  EXPECT_THAT(refusal(R"({"items":[{}]})"), HasSubstr("'prefixItems'"));
  EXPECT_THAT(refusal(R"({"minLength":-1})"), HasSubstr("'minLength'"));
  EXPECT_THAT(refusal(R"({"minLength":1.5})"), HasSubstr("'minLength'"));
  EXPECT_THAT(refusal(R"({"maxItems":"3"})"), HasSubstr("'maxItems' must be a number"));
  EXPECT_THAT(refusal(R"({"minimum":true})"), HasSubstr("'minimum'"));
  EXPECT_THAT(refusal(R"({"properties":[]})"), HasSubstr("'properties'"));
  EXPECT_THAT(refusal(R"({"required":[1]})"), HasSubstr("'required'"));
  EXPECT_THAT(refusal(R"({"enum":[]})"), HasSubstr("'enum'"));
  EXPECT_THAT(refusal(R"({"anyOf":{}})"), HasSubstr("'anyOf'"));
  EXPECT_THAT(refusal(R"({"anyOf":[{}],"type":"object"})"), HasSubstr("'type' beside 'anyOf'"));
  EXPECT_THAT(refusal(R"({"$ref":"#","minLength":1})"), HasSubstr("'minLength' beside '$ref'"));
  EXPECT_THAT(refusal(R"({"enum":["a"],"maxLength":1})"), HasSubstr("'maxLength' beside 'enum'"));
  EXPECT_THAT(refusal(R"({"allOf":[{},{}]})"), HasSubstr("'allOf'"));
  for (const char* reference :
       {"\"#/nothing\"", "\"other.json\"", "5", "\"#/$defs\"", "\"\"", "\"#x\""})
    EXPECT_THAT(refusal(fmt::format(R"({{"$ref":{},"$defs":5}})", reference)),
                ::testing::AnyOf(HasSubstr("'$ref'"), HasSubstr("#/$ref")));
  for (const char* one :
       {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})",
        R"({"oneOf":[{"minLength":1},{"type":"integer"}]})",
        R"({"oneOf":[{"enum":[1]},{"const":2}]})", R"({"oneOf":[{},{"type":"null"}]})"})
    EXPECT_THAT(refusal(one), HasSubstr("#: 'oneOf'"));
  for (const char* never :
       {"false", R"({"$ref":"#"})", R"({"minItems":2,"maxItems":1})",
        R"({"enum":[1],"type":"string"})", R"({"properties":{"a":false},"required":["a"]})",
        R"({"type":"integer","minimum":3,"maximum":2})",
        R"({"type":"integer","exclusiveMinimum":1,"exclusiveMaximum":2})",
        R"({"type":"integer","maximum":-1e300,"minimum":-5})", R"({"minimum":1e300})",
        R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})",
        R"({"required":["a"],"additionalProperties":false})",
        R"({"type":"array","prefixItems":[false],"minItems":1})"})
    EXPECT_THAT(refusal(never), HasSubstr("no value fits the schema")) << never;
}

// F8: nesting, cycles, counts and sizes without bounds end in an error, and soon.
TEST(JsonSchema, HostileSchemasEndInAnErrorF8) {
  const std::clock_t begin = std::clock();
  EXPECT_THAT(refusal(R"({"minItems":1000000000})"), HasSubstr("'minItems' asks for more"));
  EXPECT_THAT(refusal(R"({"minLength":1e300})"), HasSubstr("'minLength' asks for more"));
  // A chain of references, forwards and backwards, and a ring of them.
  for (const int last : {3000, 0}) {
    Json chain = {{"$ref", "#/$defs/d0"}, {"$defs", Json::object()}};
    for (int i = 0; i < 3000; ++i)
      chain["$defs"].push_back(
          {fmt::format("d{}", i), {{"$ref", fmt::format("#/$defs/d{}", i + 1)}}});
    chain["$defs"].push_back(
        {"d3000", last == 0 ? Json({{"$ref", "#"}}) : Json({{"type", "null"}})});
    if (last == 0)
      EXPECT_THAT(refusal_of(chain), HasSubstr("no value fits"));
    else
      EXPECT_TRUE(accepts(*compile_json_schema(chain), "null"));
  }
  Json nested = {{"type", "null"}};
  for (int i = 0; i < 60; ++i) nested = {{"type", "array"}, {"items", nested}};
  EXPECT_TRUE(accepts(*compile_json_schema(nested), "[[[]]]"));
  for (int i = 0; i < 60; ++i) nested = {{"type", "array"}, {"items", nested}, {"minItems", 1}};
  EXPECT_THAT(refusal_of(nested), HasSubstr("nests at most"));
  Json wide = {{"type", "object"}, {"properties", Json::object()}};
  for (int i = 0; i < 5000; ++i) wide["properties"].push_back({fmt::format("p{}", i), Json(true)});
  EXPECT_THAT(refusal_of(wide), HasSubstr("too large"));
  Json big = {{"enum", {std::string(70000, 'x')}}};
  EXPECT_THAT(refusal_of(big), HasSubstr("too large"));
  Json choices = Json::array();
  for (int i = 0; i < 65; ++i) choices.push_back({{"type", "object"}});
  EXPECT_THAT(refusal_of(Json{{"anyOf", choices}}), HasSubstr("'anyOf' has more than 64"));
  // Choices of choices.
  Json two = {{"anyOf", {{{"$ref", "#/$defs/a"}}, {{"$ref", "#/$defs/b"}}}}};
  for (const char* name : {"a", "b"})
    for (int i = 0; i < 40; ++i)
      two["$defs"][name]["anyOf"].push_back({{"const", fmt::format("{}{}", name, i)}});
  EXPECT_THAT(refusal_of(two), HasSubstr("more than 64 alternatives"));
  const std::string long_name(100000, 'n');
  EXPECT_LT(refusal_of(Json{{long_name, 1}}).size(), 200U);
  EXPECT_LT(refusal_of(Json{{"properties", {{long_name, {{"not", 1}}}}}}).size(), 300U);
  EXPECT_LT(std::clock() - begin, 5 * CLOCKS_PER_SEC);
}

// Alternatives that begin alike at every level: as many ways to read a text as are followed, and
// every text that comes out is still right.
TEST(JsonSchema, WaysToReadATextAreBounded) {
  Json inner = {{"$ref", "#/$defs/l8"}, {"$defs", {{"l0", {{"type", "integer"}}}}}};
  for (int i = 0; i < 8; ++i) {
    const auto with = [&](const char* name) {
      return Json{{"type", "object"},
                  {"properties",
                   {{"a", {{"$ref", fmt::format("#/$defs/l{}", i)}}}, {name, {{"type", "null"}}}}},
                  {"required", {"a", name}}};
    };
    inner["$defs"][fmt::format("l{}", i + 1)] = {{"anyOf", {with("b"), with("c"), with("d")}}};
  }
  const auto grammar = compile_json_schema(inner);
  const JsonMachine machine(*grammar);
  StackSet now;
  StackSet next;
  machine.start(now);
  for (int i = 0; i < 8; ++i)
    for (const char c : std::string_view("{\"a\":")) {
      ASSERT_TRUE(machine.step(now, static_cast<uint8_t>(c), next));
      std::swap(now, next);
      ASSERT_LE(now.size(), static_cast<size_t>(kMaxAlternatives));
    }
  std::string text = "1";
  for (int i = 0; i < 8; ++i) text += R"(,"b":null})";
  for (const char c : text) {
    ASSERT_TRUE(machine.step(now, static_cast<uint8_t>(c), next)) << c;
    std::swap(now, next);
  }
  EXPECT_TRUE(machine.complete(now));
}

// tests/data/constraint/cases.json: schemas with documents and whether `jsonschema` finds them
// valid. Documents keep the order of properties, so that the grammar accepts exactly the valid
// ones.
TEST(JsonSchema, AgreesWithThePackageOnRandomCases) {
  std::ifstream file(std::string(CLOVER_SOURCE_DIR) + "/tests/data/constraint/cases.json");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const Json cases = parse_json(text, "cases.json");
  ASSERT_GE(cases.size(), 100U);
  int documents = 0;
  for (const Json& one : cases) {
    const auto grammar = compile_json_schema(one.at("schema"));
    for (const Json& document : one.at("documents")) {
      EXPECT_EQ(accepts(*grammar, document.at("text").get<std::string>()),
                document.at("valid").get<bool>())
          << one.at("schema").dump() << "\n"
          << document.at("text");
      ++documents;
    }
  }
  EXPECT_GE(documents, 1000);
}

}  // namespace
}  // namespace clover
