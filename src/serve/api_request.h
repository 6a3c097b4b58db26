// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "sampling/sampling.h"
#include "tokenizer/tokenizer.h"

namespace clover {

// A body of POST /v1/chat/completions or /v1/completions, checked as far as that needs no model.
struct ApiRequest {
  using Prompt = std::variant<std::string, std::vector<TokenId>>;

  bool chat = false;
  std::string model;            // empty: not named
  Json messages;                // chat: contents are texts, whatever shape they came in
  Json template_variables;      // chat: further variables for the template, or null
  std::vector<Prompt> prompts;  // completions: at least one
  int64_t choices = 1;          // of every prompt
  SamplingParams sampling;
  std::optional<uint64_t> seed;
  std::optional<int64_t> max_tokens;
  std::vector<std::string> stop;
  int logprobs = -1;           // tokens beside the drawn one; -1: none at all
  std::optional<Json> schema;  // that answers keep; from "response_format"
  bool echo = false;
  bool ignore_eos = false;
  bool stream = false;
  bool include_usage = false;
  std::optional<std::string> prediction;  // of the answer's text
  // From "speculation".
  int64_t max_drafts = -1;
  std::string speculator;           // that the client wants, empty: whatever the server has
  bool report_speculation = false;  // the answer tells what was drafted
  bool mark_drafted = false;        // a stream tells it of every token
};

// Shapes of the API: the fields of OpenAI's, and top_k, min_p, repetition_penalty, min_tokens,
// ignore_eos, chat_template_kwargs and speculation. RequestError(400), naming the field, for what
// is wrong, out of range, not supported or unknown. `vocab`: token ids are below it.
ApiRequest parse_chat_request(const Json& body, int32_t vocab);
ApiRequest parse_completion_request(const Json& body, int32_t vocab);

// The messages of a chat as a template takes them: every content a text (parts of type "text" are
// joined) or, where an assistant only called tools, null. RequestError naming the message.
Json parse_messages(const Json& messages);

}  // namespace clover
