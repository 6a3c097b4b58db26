// SPDX-License-Identifier: Apache-2.0
#include "serve/api_answer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/report.h"

namespace clover {
namespace {

int64_t characters(std::string_view text) {
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
                     const std::vector<EchoedPrompt>& echo)
    : tokenizer_(tokenizer), request_(std::move(request)), head_(std::move(head)) {
  const auto prompts = request_.chat ? size_t{1} : request_.prompts.size();
  choices_.resize(prompts * static_cast<size_t>(request_.choices));
  open_ = choices();
  for (size_t i = 0; i < choices_.size() && !echo.empty(); ++i)
    begin_echo(choices_[i], echo[i / static_cast<size_t>(request_.choices)]);
}

// With log-probabilities the text is that of the tokens, which come one by one; the first has none.
void ApiAnswer::begin_echo(Choice& choice, const EchoedPrompt& prompt) const {
  if (request_.logprobs < 0) {
    choice.text = prompt.text;
  } else {
    choice.prompt.emplace(tokenizer_, prompt.was_text);
    choice.text = choice.prompt->push(prompt.first);
    choice.tokens.push_back({prompt.first,
                             std::numeric_limits<float>::quiet_NaN(),
                             {},
                             false,
                             std::ssize(choice.text)});
  }
  choice.text_chars = characters(choice.text);
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
    const bool known = !std::isnan(token.logprob);  // all but a prompt's first
    values.push_back(known ? Json(logprob_number(token.logprob)) : Json());
    Json others = known ? Json::object() : Json();
    for (const TokenLogprob& other : token.top)
      others[std::string(tokenizer_.token_bytes(other.id))] = logprob_number(other.logprob);
    top.push_back(std::move(others));
    at.push_back(offset);
    offset +=
        characters(std::string_view(text).substr(begin, static_cast<size_t>(token.text_bytes)));
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
    } else if (!choices_[i].text.empty() || !choices_[i].tokens.empty()) {
      const Choice& echo = choices_[i];
      Json values = echo.tokens.empty() ? Json() : logprobs(echo.tokens, echo.text, 0);
      chunks.push_back(chunk(i, echo.text, std::move(values), nullptr));
    }
  }
  return chunks;
}

// A piece of a choice's text and the tokens that it came with.
void ApiAnswer::take(size_t index, const std::string& text, const std::vector<OutputToken>& tokens,
                     std::vector<Json>& chunks) {
  Choice& choice = choices_[index];
  if (!request_.stream) {
    choice.text += text;
    choice.tokens.insert(choice.tokens.end(), tokens.begin(), tokens.end());
  } else if (!text.empty() || (request_.logprobs >= 0 && !tokens.empty())) {
    chunks.push_back(chunk(index, text, logprobs(tokens, text, choice.text_chars), nullptr));
  }
  choice.text_chars += characters(text);
}

void ApiAnswer::take_prompt(size_t index, std::vector<OutputToken> tokens,
                            std::vector<Json>& chunks) {
  if (tokens.empty()) return;
  std::string text;
  for (OutputToken& token : tokens) {
    const std::string piece = choices_[index].prompt->push(token.id);
    token.text_bytes = std::ssize(piece);
    text += piece;
  }
  take(index, text, tokens, chunks);
}

// The prompt may end in the middle of a character.
void ApiAnswer::end_prompt(size_t index, std::vector<Json>& chunks) {
  Choice& choice = choices_[index];
  if (!choice.prompt) return;
  const std::string rest = choice.prompt->finish();
  choice.prompt.reset();
  if (rest.empty()) return;
  choice.tokens.back().text_bytes += std::ssize(rest);
  take(index, rest, {}, chunks);
}

std::vector<Json> ApiAnswer::add(const AnswerEvent& event) {
  Choice& choice = choices_.at(event.choice);
  const Output& output = event.output;
  std::vector<Json> chunks;
  take_prompt(event.choice, output.prompt, chunks);
  if (!output.tokens.empty() || !output.text.empty() || output.finish != FinishReason::kNone)
    end_prompt(event.choice, chunks);
  const size_t before = chunks.size();
  take(event.choice, output.text, output.tokens, chunks);
  if (chunks.size() > before && request_.mark_drafted)
    chunks.back()["choices"][0]["tokens"] = marks(output);
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
  Json usage = {{"prompt_tokens", prompt_tokens()},
                {"completion_tokens", completion_tokens()},
                {"total_tokens", prompt_tokens() + completion_tokens()},
                {"prompt_tokens_details", {{"cached_tokens", cached}}}};
  if (request_.prediction) {
    int64_t said = 0;
    for (const Choice& choice : choices_) said += choice.stats.predicted_said;
    usage["completion_tokens_details"] = {
        {"accepted_prediction_tokens", said},
        {"rejected_prediction_tokens", head_.predicted_tokens * choices() - said}};
  }
  return usage;
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
