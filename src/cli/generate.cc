// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "cli/conversation.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/result.h"
#include "cli/session.h"
#include "cli/stream.h"
#include "cli/verbs.h"
#include "constraint/constraint_cache.h"

namespace clover {
namespace {

constexpr int kMaxLogprobs = 20;  // as in the OpenAI API
constexpr size_t kLargestSchema = size_t{1} << 20;

struct GenerateOptions {
  CommonOptions common;
  TextInput input;
  SamplingParams sampling;
  SpeculationOptions speculation;
  bool show_accepted = false;
  bool chat = false;
  bool parse_special = false;
  std::string system;
  int64_t max_tokens = -1;
  std::vector<std::string> stop;
  int logprobs = -1;
  bool ignore_eos = false;
  std::string json_schema;
};

std::vector<TokenId> make_prompt(const GenerateOptions& options, const Session& session,
                                 std::string text) {
  if (!options.chat) return session.tokenizer->encode(text, options.parse_special);
  Conversation conversation(*session.tokenizer);
  conversation.set_system(options.system);
  conversation.add("user", std::move(text));
  return conversation.prompt();
}

std::shared_ptr<const Constraint> read_constraint(const std::string& path, const Session& session) {
  const Json schema = parse_json(read_file(path, kLargestSchema), path);
  const auto vocab = static_cast<int32_t>(session.engine->model().config().vocab);
  try {
    return ConstraintCache(*session.tokenizer, vocab).find(schema);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", path, error.what());
  }
}

Request make_request(const GenerateOptions& options, const Session& session,
                     std::vector<TokenId> prompt) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling = options.sampling;
  request.max_tokens = options.max_tokens;
  request.stop = options.stop;
  request.top_logprobs = options.logprobs;
  request.ignore_eos = options.ignore_eos;
  if (!options.json_schema.empty())
    request.constraint = read_constraint(options.json_schema, session);
  return request;
}

Json result_json(const Session& session, const GenerateOptions& options, const Answer& answer) {
  Json ids = Json::array();
  for (const OutputToken& token : answer.tokens) ids.push_back(token.id);
  Json result = {{"text", answer.text},
                 {"token_ids", std::move(ids)},
                 {"finish_reason", finish_reason_name(answer.finish)},
                 {"usage", usage_json(answer.stats)},
                 {"speculation", speculation_json(answer.stats, session.speculators)},
                 {"timing_ms", timing_json(answer.stats, session.load_ms)},
                 {"tokens_per_second", decode_speed(answer.stats)},
                 {"machine", machine_json(session)},
                 {"model", model_json(session)}};
  if (options.logprobs >= 0) result["logprobs"] = logprobs_json(answer.tokens, *session.tokenizer);
  return result;
}

int generate(const GenerateOptions& options) {
  // Opened first: a result that cannot be kept should not cost a run.
  std::optional<AtomicFile> json;
  if (!options.common.json.empty()) json.emplace(options.common.json);
  std::string text = read_text(options.input, options.common.quiet);
  const Session session = open_session(options.common, options.speculation);
  Request request = make_request(options, session, make_prompt(options, session, std::move(text)));
  const Answer answer = stream_answer(*session.engine, std::move(request),
                                      {options.common.quiet, options.show_accepted});
  if (isatty(STDOUT_FILENO) == 1) print("\n");
  if (!options.common.quiet && isatty(STDERR_FILENO) == 1) print_statistics(answer.stats);
  if (answer.finish == FinishReason::kError)
    fail(ErrorCode::kExhausted, "generation failed: {}", answer.error);
  if (json) {
    json->write(json_text(result_json(session, options, answer)));
    json->commit();
  }
  return answer.finish == FinishReason::kCancelled ? kInterrupted : 0;
}

}  // namespace

void add_generate(CLI::App& program, Action& action) {
  CLI::App& verb = *program.add_subcommand("generate", "Continue a text or answer a question.");
  const auto options = std::make_shared<GenerateOptions>();
  GenerateOptions& o = *options;
  add_model_option(verb, o.common);
  add_text_options(verb, o.input, "the text to continue");
  CLI::Option* chat =
      verb.add_flag("--chat", o.chat, "take the text as a question, in the model's chat template");
  verb.add_option("--system", o.system, "system message for --chat")
      ->type_name("TEXT")
      ->needs(chat);
  verb.add_flag("--parse-special", o.parse_special,
                "let the text spell control tokens such as <|im_end|>")
      ->excludes(chat);
  add_number<int64_t>(verb, "-n,--max-tokens", o.max_tokens,
                      "tokens of the answer, at most (default: up to the end of the context)", 0);
  add_sampling_options(verb, o.sampling);
  add_list(verb, "--stop", o.stop, "end the answer before this text (repeatable)")
      ->type_name("TEXT");
  CLI::Option* json = add_json_option(verb, o.common);
  add_number<int>(verb, "--logprobs", o.logprobs,
                  "log-probabilities of the answer and of the N likeliest tokens, for --json", 0,
                  kMaxLogprobs)
      ->needs(json);
  CLI::Option* ignore_eos =
      verb.add_flag("--ignore-eos", o.ignore_eos, "go on after the end-of-text token");
  verb.add_option("-j,--json-schema", o.json_schema,
                  "answer with JSON that keeps the JSON Schema in this file")
      ->type_name("FILE")
      ->excludes(ignore_eos);
  add_speculation_options(verb, o.speculation);
  verb.add_flag("--show-accepted", o.show_accepted,
                "colour the tokens that were drafted (on a terminal)");
  add_engine_options(verb, o.common);
  add_quiet_option(verb, o.common);
  verb.callback([options, &action] { action = [options] { return generate(*options); }; });
}

}  // namespace clover
