// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace clover {

struct Question {
  std::string category;            // "" where the file has none
  std::vector<std::string> turns;  // the user's turns, at least one
};

// Reads JSON lines as in Spec-Bench ({"question_id", "category", "turns": […]}) or {"prompt": …}.
// Error(kCorrupt) naming the file, the line and the field; Error(kNotFound).
std::vector<Question> read_questions(const std::string& path);

}  // namespace clover
