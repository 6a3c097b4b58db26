// SPDX-License-Identifier: Apache-2.0
#include "measure/questions.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace clover {
namespace {

Question parse_question(const Json& line, const std::string& where) {
  Question question;
  if (!line.is_object()) fail(ErrorCode::kCorrupt, "{}: not a JSON object", where);
  const auto category = line.find("category");
  if (category != line.end()) {
    if (!category->is_string()) fail(ErrorCode::kCorrupt, "{}: category is no string", where);
    question.category = category->get<std::string>();
  }
  const auto turns = line.find("turns");
  if (turns == line.end()) {
    const auto prompt = line.find("prompt");
    if (prompt == line.end() || !prompt->is_string())
      fail(ErrorCode::kCorrupt, "{}: needs turns, or a prompt that is a string", where);
    question.turns.push_back(prompt->get<std::string>());
    return question;
  }
  if (!turns->is_array() || turns->empty())
    fail(ErrorCode::kCorrupt, "{}: turns is no list of strings", where);
  for (const Json& turn : *turns) {
    if (!turn.is_string()) fail(ErrorCode::kCorrupt, "{}: turns is no list of strings", where);
    question.turns.push_back(turn.get<std::string>());
  }
  return question;
}

std::vector<Question> read_one(const std::string& path) {
  std::ifstream in(path);
  if (!in) fail(ErrorCode::kNotFound, "cannot read the question file {}", path);
  std::vector<Question> questions;
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("{}, line {}", path, number);
    questions.push_back(parse_question(parse_json(line, where), where));
  }
  if (questions.empty()) fail(ErrorCode::kCorrupt, "{} holds no question", path);
  return questions;
}

}  // namespace

std::vector<Question> read_questions(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return read_one(path);
  const std::vector<std::string> files = files_in_folder(path, ".jsonl");
  if (files.empty()) fail(ErrorCode::kNotFound, "the folder {} holds no .jsonl file", path);
  std::vector<Question> questions;
  for (const std::string& file : files)
    for (Question& question : read_one(file)) questions.push_back(std::move(question));
  return questions;
}

int64_t count_turns(const std::vector<Question>& questions) {
  int64_t turns = 0;
  for (const Question& question : questions) turns += std::ssize(question.turns);
  return turns;
}

std::vector<Question> first_turns(std::vector<Question> questions, int64_t count) {
  if (count == 0) return questions;
  for (Question& question : questions)
    if (std::ssize(question.turns) > count) question.turns.resize(static_cast<size_t>(count));
  return questions;
}

std::vector<Question> first_of_each_category(std::vector<Question> questions, int64_t count) {
  if (count == 0) return questions;
  std::map<std::string, int64_t> taken;
  std::erase_if(questions, [&](const Question& q) { return ++taken[q.category] > count; });
  return questions;
}

}  // namespace clover
