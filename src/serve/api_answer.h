// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/request.h"
#include "serve/api_request.h"
#include "tokenizer/tokenizer.h"

namespace clover {

// A piece of output as it travels from the engine to a connection.
struct AnswerEvent {
  size_t choice = 0;
  Output output;
  RequestStats stats;  // with finish
};

// A prompt that its answers begin with.
struct EchoedPrompt {
  std::string text;
  TokenId first = -1;     // its first token
  bool was_text = false;  // came as a text, in which no control token can be
};

// What all answers of a server have in common.
struct AnswerHead {
  std::string id;
  int64_t created = 0;  // seconds since 1970
  std::string model;
  std::string fingerprint;
  std::string speculators;       // as the server was started with, and the prediction
  int64_t predicted_tokens = 0;  // of the prediction, for every choice
};

// Puts the output of a request's choices together in the shapes of the OpenAI API, as one object or
// as the chunks of a stream. Concatenated, the chunks are the object.
class ApiAnswer {
 public:
  // `echo`: one a prompt, or empty. The tokenizer must outlive it.
  ApiAnswer(const Tokenizer& tokenizer, ApiRequest request, AnswerHead head,
            const std::vector<EchoedPrompt>& echo);

  int64_t choices() const { return static_cast<int64_t>(choices_.size()); }
  // Takes a piece in. For a stream: the chunks that it gives, none or several.
  std::vector<Json> add(const AnswerEvent& event);
  // For a stream: the chunks before any output.
  std::vector<Json> opening() const;
  // For a stream: the chunk with the usage, if it was asked for; null otherwise.
  Json closing() const;
  bool finished() const { return open_ == 0; }
  // The first choice that ended with an error, -1: none.
  int64_t failed() const { return failed_; }
  FinishReason failure() const { return failure_; }
  const std::string& error() const { return error_; }
  Json whole() const;
  Json usage() const;
  int64_t prompt_tokens() const;
  int64_t completion_tokens() const;

 private:
  struct Choice {
    std::string text;
    std::vector<OutputToken> tokens;
    FinishReason finish = FinishReason::kNone;
    RequestStats stats;
    int64_t text_chars = 0;  // sent before, for the offsets of log-probabilities
    // Of the prompt, while its tokens come with their log-probabilities.
    std::optional<StreamDecoder> prompt;
  };
  void begin_echo(Choice& choice, const EchoedPrompt& prompt) const;
  void take(size_t index, const std::string& text, const std::vector<OutputToken>& tokens,
            std::vector<Json>& chunks);
  void take_prompt(size_t index, std::vector<OutputToken> tokens, std::vector<Json>& chunks);
  void end_prompt(size_t index, std::vector<Json>& chunks);
  Json head(bool chunk) const;
  Json chunk(size_t choice, const std::string& text, Json logprobs, const char* finish) const;
  Json logprobs(const std::vector<OutputToken>& tokens, const std::string& text,
                int64_t offset) const;
  Json marks(const Output& output) const;

  const Tokenizer& tokenizer_;
  ApiRequest request_;
  AnswerHead head_;
  std::vector<Choice> choices_;
  int64_t open_ = 0;
  int64_t failed_ = -1;
  FinishReason failure_ = FinishReason::kNone;
  std::string error_;
};

}  // namespace clover
