// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/error.h"
#include "cli/conversation.h"
#include "cli/input.h"
#include "cli/line_reader.h"
#include "cli/options.h"
#include "cli/result.h"
#include "cli/session.h"
#include "cli/stream.h"
#include "cli/verbs.h"

namespace clover {
namespace {

constexpr const char* kHelp =
    "/reset         start the conversation again\n"
    "/system TEXT   set the system message (without TEXT: show it)\n"
    "/help          this list\n"
    "/exit          leave, as Ctrl-D does\n"
    "Ctrl-C stops an answer.\n";
// Room that an answer gets before old turns are dropped for it, as a share of the context.
constexpr int64_t kAnswerShare = 4;

struct ChatOptions {
  CommonOptions common;
  SamplingParams sampling;
  SpeculationOptions speculation;
  bool show_accepted = false;
  std::string system;
  int64_t max_tokens = -1;
};

class Chat {
 public:
  Chat(const ChatOptions& options, const Session& session)
      : options_(options), session_(session), conversation_(*session.tokenizer) {
    conversation_.set_system(options.system);
  }

  void run();

 private:
  bool command(const std::string& line);
  void answer(const std::string& question);
  std::vector<TokenId> fitting_prompt();
  void note(const std::string& text) const { std::fprintf(stderr, "[%s]\n", text.c_str()); }

  const ChatOptions& options_;
  const Session& session_;
  Conversation conversation_;
};

void Chat::run() {
  // A Ctrl-C that comes between the editor and an answer has nothing to stop.
  if (isatty(STDIN_FILENO) == 1) std::signal(SIGINT, SIG_IGN);
  LineReader reader("> ");
  if (!options_.common.quiet && isatty(STDIN_FILENO) == 1) note("/help lists the commands");
  std::string line;
  while (true) {
    const LineReader::Result result = reader.read(line);
    if (result == LineReader::Result::kEnd) break;
    if (result == LineReader::Result::kInterrupted) {
      print("^C\n");
      continue;
    }
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (line.starts_with('/')) {
      if (!command(line)) return;
      continue;
    }
    try {
      answer(line);
    } catch (const Error& error) {
      // The question could not be answered; the conversation goes on without it.
      if (error.code() == ErrorCode::kIo) throw;
      conversation_.remove_last();
      note(error.what());
    }
  }
  if (isatty(STDIN_FILENO) == 1) print("\n");
}

// False when the command ends the chat.
bool Chat::command(const std::string& line) {
  const size_t space = line.find(' ');
  const std::string name = line.substr(0, space);
  const size_t begin = space == std::string::npos ? space : line.find_first_not_of(' ', space);
  const std::string rest = begin == std::string::npos ? "" : line.substr(begin);
  if (name == "/exit" || name == "/quit") return false;
  if (name == "/reset") {
    conversation_.clear();
    note("a new conversation");
  } else if (name == "/help") {
    std::fputs(kHelp, stderr);
  } else if (name == "/system") {
    if (!rest.empty()) conversation_.set_system(rest);
    note(conversation_.system().empty() ? "no system message"
                                        : "system message: " + conversation_.system());
  } else {
    note("unknown command " + name + "; /help lists them");
  }
  return true;
}

// The prompt, once as many of the oldest turns are dropped as it takes for it to fit.
std::vector<TokenId> Chat::fitting_prompt() {
  const int64_t context = session_.engine->context();
  const int64_t wanted = options_.max_tokens < 0 ? context : options_.max_tokens;
  const int64_t room = std::min(wanted, context / kAnswerShare);
  int64_t dropped = 0;
  std::vector<TokenId> prompt = conversation_.prompt();
  while (static_cast<int64_t>(prompt.size()) + room > context && conversation_.drop_oldest()) {
    ++dropped;
    prompt = conversation_.prompt();
  }
  if (dropped > 0)
    note(fmt::format("the context of {} tokens is full: forgot the oldest {}", context,
                     dropped == 1 ? "turn" : fmt::format("{} turns", dropped)));
  return prompt;
}

void Chat::answer(const std::string& question) {
  conversation_.add("user", question);
  Request request;
  request.prompt = fitting_prompt();
  request.sampling = options_.sampling;
  request.max_tokens = options_.max_tokens;
  const Answer answer = stream_answer(*session_.engine, std::move(request),
                                      {options_.common.quiet, options_.show_accepted});
  print("\n");
  if (answer.finish == FinishReason::kError)
    fail(ErrorCode::kExhausted, "the answer failed: {}", answer.error);
  conversation_.add("assistant", answer.text);
  if (answer.finish == FinishReason::kCancelled) note("stopped");
  if (answer.finish == FinishReason::kLength) note("the answer was cut: no room or tokens left");
  if (!options_.common.quiet && isatty(STDERR_FILENO) == 1) print_statistics(answer.stats);
}

int chat(const ChatOptions& options) {
  const Session session = open_session(options.common, options.speculation);
  Chat(options, session).run();
  return 0;
}

}  // namespace

void add_chat(CLI::App& program, Action& action) {
  CLI::App& verb = *program.add_subcommand("chat", "Talk with a model.");
  const auto options = std::make_shared<ChatOptions>();
  add_model_option(verb, options->common);
  verb.add_option("--system", options->system, "system message")->type_name("TEXT");
  add_number<int64_t>(verb, "-n,--max-tokens", options->max_tokens,
                      "tokens of an answer, at most (default: what the context holds)", 0);
  add_sampling_options(verb, options->sampling);
  add_speculation_options(verb, options->speculation);
  verb.add_flag("--show-accepted", options->show_accepted, "colour the tokens that were drafted");
  add_engine_options(verb, options->common);
  add_quiet_option(verb, options->common);
  verb.callback([options, &action] { action = [options] { return chat(*options); }; });
}

}  // namespace clover
