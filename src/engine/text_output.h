// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/request.h"
#include "tokenizer/tokenizer.h"

namespace clover {

// Turns a sequence's drawn tokens into output: decodes, looks for stop strings in the text, holds
// back text that may yet become one, and cuts text, ids and log-probabilities at the same token.
class TextOutput {
 public:
  TextOutput(const Tokenizer& tokenizer, std::vector<std::string> stop);

  // Adds one token (its text is empty when `silent`: the end-of-text token). True when a stop
  // string is now complete: everything from the stop string on has been dropped.
  bool push(OutputToken token, bool silent);
  // Takes what is certain; with `all`, everything (the end of the answer).
  Output take(bool all);
  // Tokens delivered or still to be delivered.
  int64_t tokens() const { return delivered_ + static_cast<int64_t>(pending_.size()); }

 private:
  struct Pending {
    OutputToken token;
    size_t text_end;  // length of the answer's text once this token was decoded
  };
  StreamDecoder decoder_;
  std::vector<std::string> stop_;
  std::string text_;        // decoded, not yet delivered
  size_t text_begin_ = 0;   // length of the answer's text before text_
  size_t token_begin_ = 0;  // where the text of the first pending token begins
  std::vector<Pending> pending_;
  int64_t delivered_ = 0;
  bool stopped_ = false;  // a stop string was found: undecoded bytes are behind it
};

}  // namespace clover
