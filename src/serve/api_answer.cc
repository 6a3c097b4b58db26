// SPDX-License-Identifier: Apache-2.0
#include "serve/api_answer.h"

#include <algorithm>
#include <utility>

#include "engine/report.h"

namespace clover {
namespace {

int64_t characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

// Of the request alone: the model had been loaded before.
Json timing(const RequestStats& stats) {
  Json ms = timing_json(stats, 0.0);
  ms.erase("load");
  ms["queue"] = stats.queue_ms;
  return ms;
}

}  // namespace

ApiAnswer::ApiAnswer(const Tokenizer& tokenizer, ApiRequest request, AnswerHead head,
                     std::vector<std::string> prompt_texts)
    : tokenizer_(tokenizer),
      request_(std::move(request)),
      head_(std::move(head)),
      prompt_texts_(std::move(prompt_texts)) {
  const auto prompts = request_.chat ? size_t{1} : request_.prompts.size();
  choices_.resize(prompts * static_cast<size_t>(request_.choices));
  open_ = choices();
  for (size_t i = 0; i < choices_.size() && !prompt_texts_.empty(); ++i)
    choices_[i].text = prompt_texts_[i / static_cast<size_t>(request_.choices)];
}

Json ApiAnswer::head(bool chunk) const {
  const char* object = !request_.chat ? "text_completion"
                       : chunk        ? "chat.completion.chunk"
                                      : "chat.completion";
  return {{"id", head_.id},
          {"object", object},
          {"created", head_.created},
          {"model", head_.model},
          {"system_fingerprint", head_.fingerprint}};
}

// Chat: a list of tokens with their bytes. Completions: lists side by side; offsets in characters.
Json ApiAnswer::logprobs(const std::vector<OutputToken>& tokens, const std::string& text,
                         int64_t offset) const {
  if (request_.logprobs < 0) return {};
  if (request_.chat) {
    Json content = logprobs_json(tokens, tokenizer_);
    content["refusal"] = nullptr;
    return content;
  }
  Json texts = Json::array(), values = Json::array(), top = Json::array(), at = Json::array();
  size_t begin = 0;
  for (const OutputToken& token : tokens) {
    texts.push_back(std::string(tokenizer_.token_bytes(token.id)));
    values.push_back(logprob_number(token.logprob));
    Json others = Json::object();
    for (const TokenLogprob& other : token.top)
      others[std::string(tokenizer_.token_bytes(other.id))] = logprob_number(other.logprob);
    top.push_back(std::move(others));
    at.push_back(offset + characters(text.substr(0, begin)));
    begin += static_cast<size_t>(token.text_bytes);
  }
  return {{"tokens", std::move(texts)},
          {"token_logprobs", std::move(values)},
          {"top_logprobs", std::move(top)},
          {"text_offset", std::move(at)}};
}

Json ApiAnswer::chunk(size_t choice, const std::string& text, Json logprobs,
                      const char* finish) const {
  Json one = {{"index", choice}};
  if (!request_.chat)
    one["text"] = text;
  else if (finish != nullptr)
    one["delta"] = Json::object();
  else
    one["delta"] = {{"content", text}};
  one["logprobs"] = std::move(logprobs);
  one["finish_reason"] = finish == nullptr ? Json() : Json(finish);
  Json whole = head(true);
  whole["choices"] = Json::array({std::move(one)});
  if (request_.include_usage) whole["usage"] = nullptr;
  return whole;
}

// The text token by token, each with whether it had been drafted.
Json ApiAnswer::marks(const Output& output) const {
  Json list = Json::array();
  size_t at = 0;
  for (const OutputToken& token : output.tokens) {
    const auto bytes = static_cast<size_t>(token.text_bytes);
    list.push_back({{"text", output.text.substr(at, bytes)}, {"drafted", token.drafted}});
    at += bytes;
  }
  return list;
}

std::vector<Json> ApiAnswer::opening() const {
  std::vector<Json> chunks;
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (request_.chat) {
      Json first = chunk(i, "", nullptr, nullptr);
      first["choices"][0]["delta"] = {{"role", "assistant"}, {"content", ""}};
      chunks.push_back(std::move(first));
    } else if (!choices_[i].text.empty()) {
      chunks.push_back(chunk(i, choices_[i].text, nullptr, nullptr));
    }
  }
  return chunks;
}

std::vector<Json> ApiAnswer::add(const AnswerEvent& event) {
  Choice& choice = choices_.at(event.choice);
  const Output& output = event.output;
  std::vector<Json> chunks;
  if (request_.stream &&
      (!output.text.empty() || (request_.logprobs >= 0 && !output.tokens.empty()))) {
    const int64_t offset = choice.text_chars;
    chunks.push_back(
        chunk(event.choice, output.text, logprobs(output.tokens, output.text, offset), nullptr));
    if (request_.mark_drafted) chunks.back()["choices"][0]["tokens"] = marks(output);
  }
  choice.text_chars += characters(output.text);
  if (!request_.stream) {
    choice.text += output.text;
    choice.tokens.insert(choice.tokens.end(), output.tokens.begin(), output.tokens.end());
  }
  if (output.finish == FinishReason::kNone) return chunks;
  choice.finish = output.finish;
  choice.stats = event.stats;
  --open_;
  if (output.finish == FinishReason::kError || output.finish == FinishReason::kCancelled) {
    if (failed_ < 0) {
      failed_ = static_cast<int64_t>(event.choice);
      failure_ = output.finish;
      error_ = output.error;
    }
    return chunks;
  }
  if (request_.stream) {
    const std::string reason(finish_reason_name(output.finish));
    chunks.push_back(chunk(event.choice, "", nullptr, reason.c_str()));
    if (request_.report_speculation) {
      Json& last = chunks.back()["choices"][0];
      last["speculation"] = speculation_json(event.stats, head_.speculators);
      last["timing_ms"] = timing(event.stats);
    }
  }
  return chunks;
}

int64_t ApiAnswer::prompt_tokens() const {
  int64_t tokens = 0;  // a prompt counts once, however many answers it gets
  for (size_t i = 0; i < choices_.size(); i += static_cast<size_t>(request_.choices))
    tokens += choices_[i].stats.prompt_tokens;
  return tokens;
}

int64_t ApiAnswer::completion_tokens() const {
  int64_t tokens = 0;
  for (const Choice& choice : choices_) tokens += choice.stats.completion_tokens;
  return tokens;
}

Json ApiAnswer::usage() const {
  int64_t cached = 0;
  for (size_t i = 0; i < choices_.size(); i += static_cast<size_t>(request_.choices))
    cached += choices_[i].stats.cached_tokens;
  return {{"prompt_tokens", prompt_tokens()},
          {"completion_tokens", completion_tokens()},
          {"total_tokens", prompt_tokens() + completion_tokens()},
          {"prompt_tokens_details", {{"cached_tokens", cached}}}};
}

Json ApiAnswer::closing() const {
  if (!request_.include_usage) return {};
  Json last = head(true);
  last["choices"] = Json::array();
  last["usage"] = usage();
  return last;
}

Json ApiAnswer::whole() const {
  Json list = Json::array();
  for (size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = choices_[i];
    Json one = {{"index", i}};
    if (request_.chat)
      one["message"] = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
    else
      one["text"] = choice.text;
    one["logprobs"] = logprobs(choice.tokens, choice.text, 0);
    one["finish_reason"] = finish_reason_name(choice.finish);
    if (request_.report_speculation) {
      one["speculation"] = speculation_json(choice.stats, head_.speculators);
      one["timing_ms"] = timing(choice.stats);
    }
    list.push_back(std::move(one));
  }
  Json answer = head(false);
  answer["choices"] = std::move(list);
  answer["usage"] = usage();
  return answer;
}

}  // namespace clover
