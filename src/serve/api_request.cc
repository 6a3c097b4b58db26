// SPDX-License-Identifier: Apache-2.0
#include "serve/api_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "serve/body_fields.h"
#include "serve/request_error.h"
#include "serve/response_format.h"

namespace clover {
namespace {

constexpr int64_t kMaxChoices = 128;
constexpr int kMaxLogprobs = 20;
constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 4096;
constexpr size_t kMaxBiases = 1024;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

void read_float(BodyFields& body, std::string_view name, float& value, double low, double high) {
  if (const auto number = body.number(name, low, high)) value = static_cast<float>(*number);
}

void read_logit_bias(BodyFields& body, SamplingParams& sampling, int32_t vocab) {
  const Json* biases = body.find("logit_bias");
  if (biases == nullptr) return;
  if (!biases->is_object()) bad_field("logit_bias", "must be an object of token ids and numbers");
  if (biases->size() > kMaxBiases)
    bad_field("logit_bias",
              fmt::format("has {} entries; {} are allowed", biases->size(), kMaxBiases));
  for (const auto& item : biases->items()) {
    const std::string& key = item.key();
    int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || key.empty())
      bad_field("logit_bias", "has the key " + shown(Json(key.substr(0, 40))) + ", no token id");
    if (!item.value().is_number()) bad_field("logit_bias", "must have numbers as values");
    const auto bias = item.value().get<double>();
    if (!(bias >= -100.0 && bias <= 100.0))
      bad_field("logit_bias", "must have values from -100 to 100, not " + shown(item.value()));
    const TokenId token = token_id(Json(id), "logit_bias", vocab);
    const auto same = [token](const auto& other) { return other.first == token; };
    if (std::ranges::any_of(sampling.logit_bias, same))
      bad_field("logit_bias", fmt::format("has token id {} twice", token));
    sampling.logit_bias.emplace_back(token, static_cast<float>(bias));
  }
}

void read_sampling(BodyFields& body, ApiRequest& request, int32_t vocab) {
  SamplingParams& sampling = request.sampling;
  sampling.temperature = 1.0f;  // the API's default
  read_float(body, "temperature", sampling.temperature, 0.0, 2.0);
  read_float(body, "top_p", sampling.top_p, 0.0, 1.0);
  if (sampling.top_p == 0.0f) {  // some clients say "greedy" with it
    sampling.top_p = 1.0f;
    sampling.top_k = 1;
  }
  read_float(body, "min_p", sampling.min_p, 0.0, 0.999);
  read_float(body, "presence_penalty", sampling.presence_penalty, -2.0, 2.0);
  read_float(body, "frequency_penalty", sampling.frequency_penalty, -2.0, 2.0);
  read_float(body, "repetition_penalty", sampling.repetition_penalty, 0.001, 1000.0);
  if (const auto k = body.integer("top_k", -1, std::numeric_limits<int32_t>::max()))
    if (*k > 0) sampling.top_k = static_cast<int32_t>(*k);
  sampling.min_tokens = body.integer("min_tokens", 0, kMost).value_or(0);
  read_logit_bias(body, sampling, vocab);
  if (const auto seed = body.integer("seed", std::numeric_limits<int64_t>::min(), kMost))
    request.seed = static_cast<uint64_t>(*seed);
}

void read_stop(BodyFields& body, ApiRequest& request) {
  const Json* stop = body.find("stop");
  if (stop == nullptr) return;
  const auto add = [&](const Json& one) {
    if (!one.is_string()) bad_field("stop", "must be a text or a list of texts");
    request.stop.push_back(one.get<std::string>());
    if (request.stop.back().empty()) bad_field("stop", "has an empty text");
    if (request.stop.back().size() > kMaxStopBytes)
      bad_field("stop", fmt::format("has a text of more than {} bytes", kMaxStopBytes));
  };
  if (!stop->is_array()) {
    add(*stop);
    return;
  }
  if (stop->size() > kMaxStops)
    bad_field("stop", fmt::format("has {} texts; {} are allowed", stop->size(), kMaxStops));
  for (const Json& one : *stop) add(one);
}

void read_stream(BodyFields& body, ApiRequest& request) {
  request.stream = body.flag("stream", false);
  const Json* options = body.find("stream_options");
  if (options == nullptr) return;
  if (!request.stream) bad_field("stream_options", "needs 'stream': true");
  BodyFields fields(*options, "stream_options");
  request.include_usage = fields.flag("include_usage", false);
  fields.only("include_obfuscation", false, "chunks are not padded");
  fields.finish();
}

// "off", false, true, or {"nodes": N, "speculator": NAME, "marks": BOOL}.
void read_speculation(BodyFields& body, ApiRequest& request) {
  const Json* value = body.find("speculation");
  if (value == nullptr) return;
  request.report_speculation = true;
  if (value->is_boolean()) {
    if (!value->get<bool>()) request.max_drafts = 0;
    return;
  }
  if (value->is_string()) {
    if (*value != "off" && *value != "auto")
      bad_field("speculation", "must be off, auto or an object, not " + shown(*value));
    if (*value == "off") request.max_drafts = 0;
    return;
  }
  BodyFields fields(*value, "speculation");
  request.max_drafts = fields.integer("nodes", 0, 4096).value_or(-1);
  request.speculator = fields.text("speculator").value_or("");
  if (request.speculator == "none") {
    request.max_drafts = 0;
    request.speculator.clear();
  }
  request.mark_drafted = fields.flag("marks", false);
  fields.finish();
}

// The text of a content: a text, or parts of type "text".
std::string content_text(const Json& content, const std::string& field) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) bad_field(field, "must be a text or a list of parts");
  std::string text;
  for (const Json& part : content) {
    BodyFields fields(part, field);
    const std::string type = fields.text("type").value_or("");
    if (type != "text")
      bad_field(field, "has a part of type " + shown(Json(type)) + "; only text is supported");
    text += fields.text("text").value_or("");
    fields.finish();
  }
  return text;
}

// {"type": "content", "content": a text or parts of type "text"}.
void read_prediction(BodyFields& body, ApiRequest& request) {
  const Json* value = body.find("prediction");
  if (value == nullptr) return;
  BodyFields fields(*value, "prediction");
  const std::string type = fields.text("type").value_or("");
  if (type != "content") bad_field("prediction.type", "must be content, not " + shown(Json(type)));
  const Json* content = fields.find("content");
  if (content == nullptr) bad_field("prediction.content", "is missing");
  request.prediction = content_text(*content, "prediction.content");
  fields.finish();
  if (request.max_drafts == 0)
    bad_field("prediction", "becomes drafts, and 'speculation' allows none");
}

void read_common(BodyFields& body, ApiRequest& request, int32_t vocab) {
  request.model = body.text("model").value_or("");
  request.choices = body.integer("n", 1, kMaxChoices).value_or(1);
  read_sampling(body, request, vocab);
  read_stop(body, request);
  read_stream(body, request);
  read_speculation(body, request);
  request.ignore_eos = body.flag("ignore_eos", false);
  request.schema = read_response_format(body);
  if (request.schema && request.ignore_eos)
    bad_field("ignore_eos", "leaves an answer that keeps a 'response_format' without an end");
  if (request.schema && request.sampling.min_tokens > 0)
    bad_field("min_tokens", "is not supported with a 'response_format'");
  body.text("user");  // says who asks; nothing depends on it
  read_prediction(body, request);
}

ApiRequest::Prompt ids_prompt(const Json& list, int32_t vocab) {
  std::vector<TokenId> ids;
  ids.reserve(list.size());
  for (const Json& id : list) ids.push_back(token_id(id, "prompt", vocab));
  if (ids.empty()) bad_field("prompt", "is empty");
  return ids;
}

void read_prompts(BodyFields& body, ApiRequest& request, int32_t vocab) {
  const Json* prompt = body.find("prompt");
  if (prompt == nullptr) bad_field("prompt", "is missing");
  const auto add_text = [&](const Json& text) {
    request.prompts.emplace_back(text.get<std::string>());
  };
  if (prompt->is_string()) {
    add_text(*prompt);
  } else if (prompt->is_array() && !prompt->empty() && prompt->front().is_string()) {
    for (const Json& text : *prompt) {
      if (!text.is_string()) bad_field("prompt", "mixes texts and other things");
      add_text(text);
    }
  } else if (prompt->is_array() && !prompt->empty() && prompt->front().is_array()) {
    for (const Json& ids : *prompt) {
      if (!ids.is_array()) bad_field("prompt", "mixes lists and other things");
      request.prompts.push_back(ids_prompt(ids, vocab));
    }
  } else if (prompt->is_array()) {
    request.prompts.push_back(ids_prompt(*prompt, vocab));
  } else {
    bad_field("prompt", "must be a text, a list of token ids, or a list of either");
  }
  if (std::ssize(request.prompts) * request.choices > kMaxChoices)
    bad_field("prompt", fmt::format("and 'n' ask for {} answers; {} are allowed",
                                    std::ssize(request.prompts) * request.choices, kMaxChoices));
}

void refuse_chat_fields(BodyFields& body) {
  body.refuse("functions", "use a prompt that describes them");
  body.refuse("function_call", "there are no functions");
  body.only("tools", Json::array(), "answers are not read for tool calls");
  if (const auto choice = body.text("tool_choice"))
    if (*choice != "none" && *choice != "auto")
      bad_field("tool_choice", "can only be none or auto: there are no tools");
  body.flag("parallel_tool_calls", false);  // of tools that there are none of
  body.only("modalities", Json::array({"text"}), "answers are text");
  body.refuse("audio", "answers are text");
  body.only("store", false, "nothing is stored");
  body.refuse("metadata", "nothing is stored");
  body.refuse("reasoning_effort", "the model decides");
  body.refuse("verbosity", "the model decides");
  body.refuse("web_search_options", "the server reaches nothing");
  if (const auto tier = body.text("service_tier"))
    if (*tier != "auto" && *tier != "default")
      bad_field("service_tier", "can only be auto or default");
}

}  // namespace

Json parse_messages(const Json& messages) {
  if (!messages.is_array() || messages.empty())
    bad_field("messages", "must be a list of at least one message");
  Json parsed = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string where = fmt::format("messages[{}]", i);
    BodyFields fields(messages[i], where);
    std::string role = fields.text("role").value_or("");
    constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};
    if (std::ranges::find(kRoles, role) == std::end(kRoles))
      bad_field(where + ".role",
                "must be system, developer, user, assistant or tool, not " + shown(Json(role)));
    if (role == "developer") role = "system";
    Json message = {{"role", role}};
    const Json* content = fields.find("content");
    const Json* calls = fields.find("tool_calls");
    if (content == nullptr && !(role == "assistant" && calls != nullptr))
      bad_field(where + ".content", "is missing");
    message["content"] =
        content == nullptr ? Json() : Json(content_text(*content, where + ".content"));
    if (calls != nullptr) message["tool_calls"] = *calls;
    if (const auto name = fields.text("name")) message["name"] = *name;
    if (const auto id = fields.text("tool_call_id")) message["tool_call_id"] = *id;
    fields.refuse("refusal", "answers have none");
    fields.finish();
    parsed.push_back(std::move(message));
  }
  return parsed;
}

ApiRequest parse_chat_request(const Json& json, int32_t vocab) {
  BodyFields body(json);
  ApiRequest request;
  request.chat = true;
  const Json* messages = body.find("messages");
  if (messages == nullptr) bad_field("messages", "is missing");
  request.messages = parse_messages(*messages);
  read_common(body, request, vocab);
  const auto old_name = body.integer("max_tokens", 0, kMost);
  const auto new_name = body.integer("max_completion_tokens", 0, kMost);
  if (old_name && new_name && *old_name != *new_name)
    bad_field("max_tokens", "and 'max_completion_tokens' say different things");
  request.max_tokens = new_name ? new_name : old_name;
  const bool logprobs = body.flag("logprobs", false);
  const auto top = body.integer("top_logprobs", 0, kMaxLogprobs);
  if (top && !logprobs) bad_field("top_logprobs", "needs 'logprobs': true");
  if (logprobs) request.logprobs = static_cast<int>(top.value_or(0));
  if (const Json* variables = body.find("chat_template_kwargs")) {
    if (!variables->is_object()) bad_field("chat_template_kwargs", "must be an object");
    request.template_variables = *variables;
  }
  refuse_chat_fields(body);
  body.finish();
  return request;
}

ApiRequest parse_completion_request(const Json& json, int32_t vocab) {
  BodyFields body(json);
  ApiRequest request;
  read_common(body, request, vocab);
  read_prompts(body, request, vocab);
  request.max_tokens = body.integer("max_tokens", 0, kMost);
  if (const auto logprobs = body.integer("logprobs", 0, kMaxLogprobs))
    request.logprobs = static_cast<int>(*logprobs);
  request.echo = body.flag("echo", false);
  if (const auto best = body.integer("best_of", 1, kMaxChoices))
    if (*best != request.choices)
      bad_field("best_of", "can only be as many as 'n': answers are not ranked");
  body.only("suffix", "", "text is not filled in");
  body.finish();
  return request;
}

}  // namespace clover
