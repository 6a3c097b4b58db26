// SPDX-License-Identifier: Apache-2.0
#include "measure/questions.h"

#include <gtest/gtest.h>

#include <filesystem>
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

TEST(Questions, AFolderIsItsFilesInOrderOfName) {
  const std::filesystem::path folder = testing::TempDir() + "questions_folder";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  EXPECT_THROW(read_questions(folder.string()), Error);  // nothing in it
  std::ofstream(folder / "b.jsonl") << "{\"prompt\": \"3\"}\n";
  std::ofstream(folder / "a.jsonl") << "{\"prompt\": \"1\"}\n{\"prompt\": \"2\"}\n";
  std::ofstream(folder / "README.md") << "no question\n";
  const auto questions = read_questions(folder.string());
  ASSERT_EQ(questions.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(questions[i].turns[0], std::to_string(i + 1));
  std::ofstream(folder / "c.jsonl") << "{\"prompt\": 1}\n";
  try {
    read_questions(folder.string());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("c.jsonl, line 1"), std::string::npos) << error.what();
  }
}

TEST(Questions, FirstOfEachCategory) {
  const std::vector<Question> all = {{"a", {"1"}}, {"b", {"2"}}, {"a", {"3"}}, {"a", {"4"}}};
  EXPECT_EQ(first_of_each_category(all, 0).size(), 4u);
  const auto two = first_of_each_category(all, 2);
  ASSERT_EQ(two.size(), 3u);
  EXPECT_EQ(two[2].turns[0], "3");
  EXPECT_EQ(first_of_each_category(all, 1).size(), 2u);
}

}  // namespace
}  // namespace clover
