// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "tokenizer/split_regex.h"

namespace clover {

// What becomes of the matches of a splitting pattern.
enum class SplitBehavior {
  kRemoved,             // dropped
  kIsolated,            // pieces of their own
  kMergedWithPrevious,  // joined to the text before
  kMergedWithNext,      // joined to the text behind
  kContiguous,          // adjacent matches form one piece
};

// The split pattern of GPT-2, which byte-level pre-tokenizers apply by default.
extern const char* const kGpt2Pattern;

// Cuts normalised text into pieces that are tokenized independently: a list of steps, each applied
// to every piece of the step before.
class PreTokenizer {
 public:
  struct Split {
    SplitRegex pattern;
    SplitBehavior behavior = SplitBehavior::kIsolated;
    bool invert = false;  // what does not match plays the part of the matches
  };
  // Adds a space to pieces that begin with none.
  struct PrefixSpace {};
  // Spells spaces as a visible character.
  struct Metaspace {
    enum class Prepend { kFirst, kAlways, kNever };
    std::string replacement;
    Prepend prepend = Prepend::kAlways;
  };
  using Step = std::variant<Split, PrefixSpace, Metaspace>;

  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<Step> steps) : steps_(std::move(steps)) {}
  bool empty() const { return steps_.empty(); }
  // From tokenizer.json's "pre_tokenizer" (null: none). Sets `byte_level` when the pieces are
  // spelled in the byte alphabet. Error(kUnsupported) with the step's type.
  static PreTokenizer from_json(const Json* node, bool& byte_level);

  // Leaves the pieces' ranges in `pieces`; steps that insert characters rewrite `text` (valid
  // UTF-8). `at_start`: the text begins where the whole input does.
  void apply(std::string& text, bool at_start, std::vector<TextRange>& pieces) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace clover
