// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace clover {

// Hashes of a text's words: runs of letters, marks and digits after Unicode compatibility
// composition and case folding, so that punctuation, case, and forms of writing make no difference.
// A character of the scripts that write no spaces (Chinese, Japanese, …) is a word of its own.
std::vector<uint64_t> word_hashes(std::string_view text);

// Texts that no prompt may repeat, the questions of an evaluation.
class ExclusionSet {
 public:
  static constexpr size_t kWords = 10;

  void add(std::string_view text);
  // Adds all turns of all prompts of a file; errors as read_prompts().
  void add_file(const std::string& path);
  bool empty() const { return runs_.empty() && short_texts_.empty(); }
  // Whether `text` has kWords words in a row in common with an added text, or is, word for word, an
  // added text that is shorter than that.
  bool matches(std::string_view text) const;

 private:
  std::unordered_set<uint64_t> runs_;         // hashes of kWords words
  std::unordered_set<uint64_t> short_texts_;  // of all words of a text with fewer
};

}  // namespace clover
