// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace clover {

// Half-open byte range of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const TextRange&) const = default;
};

// A regular expression of a tokenizer, written in the dialect of tokenizer.json (Oniguruma's Ruby
// syntax: Unicode \s \d \w, ^ and $ at every line). Compiled once, matched by machine code; const
// and safe to share between threads. Matching needs a bounded stack whatever the text.
class SplitRegex {
 public:
  // Error(kUnsupported) naming the pattern when it does not compile or uses a construct whose
  // meaning differs between the dialects.
  explicit SplitRegex(std::string_view pattern);
  // Matches `text` literally.
  static SplitRegex literal(std::string_view text);

  // Appends all matches in `text` (valid UTF-8) to `matches`, in order, without overlaps; an empty
  // match directly behind another match is dropped. Error(kInvalidArgument) when the text exceeds
  // the work allowed for one match.
  void find_all(std::string_view text, std::vector<TextRange>& matches) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

// The pattern in PCRE2's dialect (see SplitRegex).
std::string translate_pattern(std::string_view pattern);

}  // namespace clover
