// SPDX-License-Identifier: Apache-2.0
#include "measure/questions.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"

namespace clover {
namespace {

std::vector<Question> read(const std::string& text) {
  const std::string path = testing::TempDir() + "questions.jsonl";
  std::ofstream(path) << text;
  return read_questions(path);
}

TEST(Questions, BothShapes) {
  const auto questions = read(
      "{\"question_id\": 1, \"category\": \"qa\", \"turns\": [\"a\", \"b\"]}\n\n"
      "{\"prompt\": \"c\"}\n");
  ASSERT_EQ(questions.size(), 2u);
  EXPECT_EQ(questions[0].category, "qa");
  EXPECT_EQ(questions[0].turns, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(questions[1].turns, (std::vector<std::string>{"c"}));
}

TEST(Questions, BrokenFilesNameTheLine) {
  for (const char* text : {"{\"prompt\": 3}", "[]", "{\"turns\": []}", "{\"turns\": [1]}", "{",
                           "{\"turns\": \"x\"}", "{\"category\": 1, \"prompt\": \"x\"}"}) {
    try {
      read(std::string("{\"prompt\": \"fine\"}\n") + text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(read(""), Error);
  EXPECT_THROW(read_questions("/no/such/file"), Error);
}

}  // namespace
}  // namespace clover
