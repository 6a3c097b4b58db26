// SPDX-License-Identifier: Apache-2.0
#include "serve/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <random>
#include <utility>

#include "base/random.h"
#include "serve/body_fields.h"
#include "serve/request_error.h"

namespace clover {
namespace {

constexpr int64_t kCompletionTokens = 16;  // the API's default for text completions

// Differs from call to call and from process to process.
uint64_t fresh_bits() {
  static const uint64_t key = [] {
    std::random_device device;
    return (static_cast<uint64_t>(device()) << 32) | device();
  }();
  static std::atomic<uint64_t> calls{0};
  return random_bits(key, calls.fetch_add(1));
}

int64_t local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return static_cast<int64_t>(now) + local.tm_gmtoff;
}

[[noreturn]] void too_long(const std::string& field, const std::string& message) {
  throw RequestError(400, message, field, "context_length_exceeded");
}

}  // namespace

Api::Api(const Tokenizer& tokenizer, EngineService& engine, ServerMetrics& metrics,
         ApiOptions options)
    : tokenizer_(tokenizer),
      engine_(engine),
      metrics_(metrics),
      options_(std::move(options)),
      constraints_(tokenizer, vocab()),
      created_(static_cast<int64_t>(std::time(nullptr))) {
  if (auto source = tokenizer_.chat_template()) template_ = ChatTemplate::parse(*std::move(source));
}

int32_t Api::vocab() const { return static_cast<int32_t>(engine_.model().config().vocab); }

Json Api::models() const {
  const Json model = {{"id", options_.model},
                      {"object", "model"},
                      {"created", created_},
                      {"owned_by", "clover"},
                      {"max_model_len", engine_.context()},
                      {"speculator", options_.speculators}};
  return {{"object", "list"}, {"data", Json::array({model})}};
}

Json Api::version() const { return {{"version", options_.version}}; }

std::vector<TokenId> Api::chat_prompt(const Json& messages, const Json& variables,
                                      bool generation_prompt) const {
  if (!template_) bad_field("messages", "need a chat template, and this model has none");
  ChatRenderOptions options;
  options.add_generation_prompt = generation_prompt;
  options.special_tokens = tokenizer_.template_tokens();
  options.variables = variables;
  options.now = local_now();
  try {
    return tokenizer_.encode(template_->render(messages, options), EncodeOptions{});
  } catch (const Error& error) {
    throw RequestError(400, error.what(), "messages");
  }
}

std::vector<TokenId> Api::text_prompt(const ApiRequest::Prompt& prompt) const {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) return *ids;
  std::vector<TokenId> ids = tokenizer_.encode(std::get<std::string>(prompt), false);
  if (ids.empty()) bad_field("prompt", "is empty");
  return ids;
}

Json Api::tokenize(const Json& json) const {
  BodyFields body(json);
  check_model(body.text("model").value_or(""));
  std::vector<TokenId> ids;
  if (const Json* messages = body.find("messages")) {
    ids = chat_prompt(parse_messages(*messages), {}, body.flag("add_generation_prompt", true));
  } else {
    const auto prompt = body.text("prompt");
    if (!prompt) bad_field("prompt", "is missing");
    ids = tokenizer_.encode(*prompt, false, {body.flag("add_special_tokens", true)});
  }
  body.finish();
  return {{"count", ids.size()}, {"max_model_len", engine_.context()}, {"tokens", ids}};
}

Json Api::detokenize(const Json& json) const {
  BodyFields body(json);
  check_model(body.text("model").value_or(""));
  const Json* tokens = body.find("tokens");
  if (tokens == nullptr || !tokens->is_array()) bad_field("tokens", "must be a list of token ids");
  body.finish();
  std::vector<TokenId> ids;
  for (const Json& id : *tokens) ids.push_back(token_id(id, "tokens", tokenizer_.vocab_size()));
  return {{"prompt", tokenizer_.decode(ids, false)}};
}

void Api::check_model(const std::string& name) const {
  if (!name.empty() && name != options_.model)
    throw RequestError(
        404, fmt::format("the model '{}' is not served here; this is '{}'", name, options_.model),
        "model", "model_not_found");
}

void Api::check_speculation(const ApiRequest& request) const {
  if (!request.speculator.empty() && request.speculator != options_.speculators)
    bad_field("speculation.speculator",
              fmt::format("can be '{}' or none on this server", options_.speculators));
  if (request.max_drafts > options_.max_drafts)
    bad_field("speculation.nodes", fmt::format("can be at most {} on this server, not {}",
                                               options_.max_drafts, request.max_drafts));
}

// What drafts for the request, as its statistics name it.
std::string Api::speculators_of(const ApiRequest& request) const {
  if (!request.prediction) return options_.speculators;
  return options_.speculators == "none" ? "prediction" : options_.speculators + "+prediction";
}

std::vector<TokenId> Api::predicted_answer(const ApiRequest& request) const {
  if (!request.prediction) return {};
  std::vector<TokenId> ids = tokenizer_.encode(*request.prediction, false, {.add_special = false});
  if (std::ssize(ids) > engine_.context())
    bad_field("prediction", fmt::format("has {} tokens, but the context holds {}", ids.size(),
                                        engine_.context()));
  return ids;
}

int64_t Api::answer_tokens(const ApiRequest& request, int64_t prompt_tokens) const {
  const int64_t context = engine_.context();
  const char* field = request.chat ? "messages" : "prompt";
  if (prompt_tokens > context)
    too_long(field, fmt::format("the prompt has {} tokens, but the context holds {}", prompt_tokens,
                                context));
  const int64_t room = context - prompt_tokens + 1;  // the last token needs no place
  if (!request.max_tokens) return request.chat ? -1 : std::min(kCompletionTokens, room);
  if (*request.max_tokens > room)
    too_long(field, fmt::format("the context holds {} tokens; the prompt has {} and an answer of "
                                "{} was asked for, {} in all",
                                context, prompt_tokens, *request.max_tokens,
                                static_cast<uint64_t>(prompt_tokens) +
                                    static_cast<uint64_t>(*request.max_tokens)));
  return *request.max_tokens;
}

// Null when any text may be the answer.
std::shared_ptr<const Constraint> Api::constraint_of(const ApiRequest& request) const {
  if (!request.schema) return nullptr;
  try {
    return constraints_.find(*request.schema);
  } catch (const Error& error) {
    throw RequestError(400, error.what(), "response_format");
  }
}

void Api::add_requests(const std::vector<TokenId>& prompt, PreparedRequest& prepared) const {
  const ApiRequest& asked = prepared.request;
  const uint64_t seed = asked.seed ? *asked.seed : fresh_bits();
  const std::shared_ptr<const Constraint> constraint = constraint_of(asked);
  const std::vector<TokenId> prediction = predicted_answer(asked);
  for (int64_t choice = 0; choice < asked.choices; ++choice) {
    Request request;
    request.prompt = prompt;
    request.sampling = asked.sampling;
    // The first choice is what the seed alone gives, the others differ from it.
    request.sampling.seed = choice == 0 ? seed : stream_key(seed, static_cast<uint64_t>(choice));
    request.max_tokens = answer_tokens(asked, std::ssize(prompt));
    request.stop = asked.stop;
    request.top_logprobs = asked.logprobs;
    request.prompt_logprobs = asked.echo && asked.logprobs >= 0;
    request.ignore_eos = asked.ignore_eos;
    request.prediction = prediction;
    request.max_drafts = asked.max_drafts;
    request.constraint = constraint;
    prepared.requests.push_back(std::move(request));
  }
}

PreparedRequest Api::prepare(const Json& body, bool chat) const {
  PreparedRequest prepared;
  prepared.request =
      chat ? parse_chat_request(body, vocab()) : parse_completion_request(body, vocab());
  const ApiRequest& request = prepared.request;
  check_model(request.model);
  check_speculation(request);
  if (chat) {
    add_requests(chat_prompt(request.messages, request.template_variables, true), prepared);
  } else {
    for (const ApiRequest::Prompt& prompt : request.prompts) {
      const std::vector<TokenId> ids = text_prompt(prompt);
      add_requests(ids, prepared);
      if (!request.echo) continue;
      const auto* text = std::get_if<std::string>(&prompt);
      prepared.echo.push_back(
          {text != nullptr ? *text : tokenizer_.decode(ids, false), ids.front(), text != nullptr});
    }
  }
  prepared.head = {fmt::format("{}-{:016x}{:08x}", chat ? "chatcmpl" : "cmpl", fresh_bits(),
                               static_cast<uint32_t>(fresh_bits())),
                   static_cast<int64_t>(std::time(nullptr)),
                   options_.model,
                   "clover-" + options_.version,
                   speculators_of(request),
                   std::ssize(prepared.requests.front().prediction)};
  return prepared;
}

}  // namespace clover
