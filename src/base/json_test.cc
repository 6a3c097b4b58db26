// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "base/error.h"

namespace clover {
namespace {

std::string error_of(std::string_view text, int max_depth = 64) {
  try {
    parse_json(text, "the test", max_depth);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kCorrupt);
    return e.what();
  }
  return "";
}

TEST(ParseJson, KeepsValuesAndTheOrderOfKeys) {
  const std::string text =
      R"({"z":[1,-2,3.5,true,false,null,"é"],"a":{"deep":{"er":[]}},"m":18446744073709551615})";
  EXPECT_EQ(parse_json(text, "x").dump(), text);
  EXPECT_EQ(parse_json(" 7 ", "x"), 7);
  EXPECT_EQ(parse_json("\"\\ud83d\\ude00\"", "x"), "\xF0\x9F\x98\x80");
}

TEST(ParseJson, AgreesWithTheLibraryOnNestedContainers) {
  const std::string text = R"([[],[[1],{"a":[{"b":1,"c":{}}],"d":[[]]}],{},[{"e":"f"}]])";
  EXPECT_EQ(parse_json(text, "x"), Json::parse(text));
}

TEST(ParseJson, RefusesBrokenText) {
  for (const char* text :
       {"", " ", "{", "[1,]", "{\"a\":}", "{\"a\" 1}", "nul", "[1] 2", "\"\\u12\"", "\"\\ud800\"",
        "1e999", "NaN", "{1:2}", "'a'", "[1 2]", "\"a\nb\""}) {
    EXPECT_NE(error_of(text).find("the test"), std::string::npos) << text;
  }
}

TEST(ParseJson, RefusesInvalidUtf8) {
  EXPECT_NE(error_of("\"\xC3\x28\""), "");
  EXPECT_NE(error_of("\"\xED\xA0\x80\""), "");      // a surrogate
  EXPECT_NE(error_of("\"\xF4\x90\x80\x80\""), "");  // above U+10FFFF
  EXPECT_NE(error_of("\"\xFF\""), "");
}

TEST(ParseJson, BoundsTheDepth) {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']');
  };
  EXPECT_EQ(error_of(nested(64)), "");
  EXPECT_NE(error_of(nested(65)).find("64 deep"), std::string::npos);
  EXPECT_NE(error_of(nested(3), 2), "");
  EXPECT_NE(error_of(std::string(1 << 20, '[')), "");
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_NE(error_of(objects).find("64 deep"), std::string::npos);
}

TEST(ParseJson, RefusesKeysGivenTwice) {
  EXPECT_NE(error_of(R"({"a":1,"b":{"k":1,"c":2,"k":3}})").find("\"k\""), std::string::npos);
  EXPECT_EQ(error_of(R"({"a":{"k":1},"b":{"k":1}})"), "");
}

TEST(ParseJson, LargeObjectsTakeLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) {
    text += (i ? ",\"t" : "\"t") + std::to_string(i) + "\":" + std::to_string(i);
  }
  text += "}";
  // Quadratic work would be 4e10 comparisons: hours, whatever the build and the load.
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_json(text, "x").size(), 200000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(100));
}

}  // namespace
}  // namespace clover
