// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "tokenizer/split_regex.h"

namespace clover {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

// Unicode normalisation of valid UTF-8, in O(n log n) for any text.
std::string unicode_normalize(std::string_view text, UnicodeForm form);

// What happens to text before it is split: a list of steps.
class Normalizer {
 public:
  struct Lowercase {};
  struct Prepend {
    std::string text;
  };
  struct Replace {
    SplitRegex pattern;
    std::string text;
  };
  struct Strip {
    bool left = false;
    bool right = false;
  };
  using Step = std::variant<UnicodeForm, Lowercase, Prepend, Replace, Strip>;

  Normalizer() = default;
  explicit Normalizer(std::vector<Step> steps) : steps_(std::move(steps)) {}
  // From tokenizer.json's "normalizer" (null: none). Error(kUnsupported) with the step's type.
  static Normalizer from_json(const Json* node);

  bool empty() const { return steps_.empty(); }
  struct Result {
    std::string text;
    bool front_kept = true;  // no step removed the beginning of the text
  };
  // `text` must be valid UTF-8. `prepend`: whether Prepend steps act (not in the middle of a text).
  Result apply(std::string_view text, bool prepend = true) const;

 private:
  std::vector<Step> steps_;
};

// Error(kInvalidArgument) when steps of a tokenizer made a text wildly longer: a hostile file could
// double it again and again.
void check_growth(size_t before, size_t after);

// {"String": …} or {"Regex": …} of tokenizer.json.
SplitRegex pattern_from_json(const Json& owner);

}  // namespace clover
