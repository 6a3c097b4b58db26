// SPDX-License-Identifier: Apache-2.0
// The questions under bench/questions keep what their README promises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "measure/questions.h"

namespace clover {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr size_t kRun = 10;  // words in a row that two files may not share

std::filesystem::path root() { return CLOVER_SOURCE_DIR; }

std::vector<std::string> files() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(root() / "bench/questions"))
    if (entry.path().extension() == ".jsonl") found.push_back(entry.path().string());
  return found;
}

size_t count_words(const std::string& text) {
  std::istringstream in(text);
  size_t count = 0;
  for (std::string word; in >> word;) ++count;
  return count;
}

// All runs of kRun words of a text: letters and digits alone, in lower case.
std::set<std::string> word_runs(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80 || std::isalnum(static_cast<unsigned char>(c)))
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  std::set<std::string> runs;
  for (size_t i = 0; i + kRun <= words.size(); ++i) {
    std::string run;
    for (size_t j = i; j < i + kRun; ++j) run += words[j] + " ";
    runs.insert(std::move(run));
  }
  return runs;
}

// Runs that occur in more than one of the texts.
std::vector<std::string> shared_runs(const std::vector<std::string>& texts) {
  std::set<std::string> seen;
  std::vector<std::string> shared;
  for (const std::string& text : texts) {
    const std::set<std::string> runs = word_runs(text);
    for (const std::string& run : runs)
      if (seen.contains(run)) shared.push_back(run);
    seen.insert(runs.begin(), runs.end());
  }
  return shared;
}

std::string all_turns(const std::string& path) {
  std::string text;
  for (const Question& question : read_questions(path))
    for (const std::string& turn : question.turns) text += turn + "\n";
  return text;
}

TEST(QuestionSet, SharedRunsAreFound) {
  const std::string ten = "one two, three four five six seven eight nine TEN";
  EXPECT_THAT(shared_runs({ten + " more", "and One two three four five six seven eight nine ten"}),
              ElementsAre("one two three four five six seven eight nine ten "));
  EXPECT_THAT(shared_runs({ten, "one two three four five six seven eight nine eleven"}), IsEmpty());
}

TEST(QuestionSet, EveryCategoryIsThere) {
  std::map<std::string, size_t> counts;
  for (const Question& question : read_questions((root() / "bench/questions").string()))
    ++counts[question.category];
  std::vector<std::string> names;
  for (const auto& [category, count] : counts) {
    names.push_back(category);
    EXPECT_GE(count, 20U) << category;
  }
  EXPECT_THAT(names, UnorderedElementsAre("chat", "code", "maths", "translation", "summarisation",
                                          "retrieval", "multi_turn", "long_context"));
}

TEST(QuestionSet, AFileIsOneCategoryAndIdsAreUnique) {
  std::set<int64_t> ids;
  for (const std::string& path : files()) {
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
      const Json question = parse_json(line, path);
      EXPECT_TRUE(ids.insert(question.at("question_id").get<int64_t>()).second) << line;
      EXPECT_EQ(question.at("category").get<std::string>(),
                std::filesystem::path(path).stem().string());
    }
  }
  EXPECT_GE(ids.size(), 160U);
}

TEST(QuestionSet, LengthsAreThoseOfTheirCategory) {
  for (const Question& question : read_questions((root() / "bench/questions").string())) {
    const size_t words = count_words(question.turns.front());
    const std::string& category = question.category;
    if (category == "long_context") {
      EXPECT_TRUE(1500 <= words && words <= 3000) << words;
    } else if (category == "summarisation" || category == "retrieval") {
      EXPECT_TRUE(200 <= words && words <= 600) << words;
    } else {
      EXPECT_TRUE(5 <= words && words <= 60) << question.turns.front();
    }
    const size_t turns = question.turns.size();
    const bool several = category == "multi_turn";
    EXPECT_TRUE(several ? turns == 2 || turns == 3 : turns == 1) << question.turns.front();
  }
}

TEST(QuestionSet, NoTextIsInTwoFiles) {
  std::vector<std::string> texts = {all_turns((root() / "bench/peers/prompts.jsonl").string())};
  for (const std::string& path : files()) texts.push_back(all_turns(path));
  EXPECT_THAT(shared_runs(texts), IsEmpty());
}

}  // namespace
}  // namespace clover
