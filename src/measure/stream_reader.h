// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace clover {

// Reads the events of a streamed answer of the OpenAI API as its bytes arrive, however they are
// cut. Chunks are not tokens: how many tokens there were is what the usage says.
class StreamReader {
 public:
  // Bytes of the body, which came `ms` after the request was sent. Error(kCorrupt) for an event
  // that is no JSON.
  void add(std::string_view bytes, double ms);

  bool done() const { return done_; }  // the stream said [DONE]
  const std::string& text() const { return text_; }
  const std::string& finish() const { return finish_; }  // empty: none was given
  const std::string& error() const { return error_; }
  int64_t completion_tokens() const { return completion_tokens_; }  // -1: no usage was given
  int64_t prompt_tokens() const { return prompt_tokens_; }
  int64_t steps() const { return steps_; }        // of the target, where the server tells; else 0
  int64_t accepted() const { return accepted_; }  // drafts, where the server tells
  double first_ms() const { return first_ms_; }   // of the first text, reasoning too; -1: none
  double last_ms() const { return last_ms_; }
  // The longest time between two chunks with text.
  double longest_gap_ms() const { return longest_gap_ms_; }

 private:
  void event(std::string_view data, double ms);

  std::string pending_;
  std::string text_;
  std::string finish_;
  std::string error_;
  bool done_ = false;
  int64_t completion_tokens_ = -1;
  int64_t prompt_tokens_ = 0;
  int64_t steps_ = 0;
  int64_t accepted_ = 0;
  double first_ms_ = -1.0;
  double last_ms_ = -1.0;
  double longest_gap_ms_ = 0.0;
};

}  // namespace clover
