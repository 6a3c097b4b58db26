// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace clover {

struct Question {
  std::string category;            // "" where the file has none
  std::vector<std::string> turns;  // the user's turns, at least one
};

// Reads JSON lines as in Spec-Bench ({"question_id", "category", "turns": […]}) or {"prompt": …}:
// one file, or every *.jsonl of a folder in order of name.
// Error(kCorrupt) naming the file, the line and the field; Error(kNotFound).
std::vector<Question> read_questions(const std::string& path);

// Turns of all questions together.
int64_t count_turns(const std::vector<Question>& questions);

// The first `count` turns of each question; all of them for 0.
std::vector<Question> first_turns(std::vector<Question> questions, int64_t count);

// The first `count` questions of each category, in their order; all of them for 0.
std::vector<Question> first_of_each_category(std::vector<Question> questions, int64_t count);

}  // namespace clover
