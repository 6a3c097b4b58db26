// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "cli/torch_build.h"
#include "cli/verbs.h"

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

// One line, whatever the message holds.
int report(std::string message) {
  for (char& c : message)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  std::fprintf(stderr, "clover: %s\n", message.c_str());
  return kFailed;
}

// Whether a verb, or one inside it, was told to compute with libtorch.
bool asks_for_torch(const CLI::App& program) {
  const auto says = [](const CLI::App& verb, const char* name, const auto& is_torch) {
    const CLI::Option* option = verb.get_option_no_throw(name);
    return option && option->count() > 0 && is_torch(option->as<std::string>());
  };
  for (const CLI::App* verb : program.get_subcommands()) {
    if (says(*verb, "--device", [](const std::string& device) { return device != "cpu"; }) ||
        says(*verb, "--isa", [](const std::string& isa) { return isa == "torch"; }) ||
        asks_for_torch(*verb))
      return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program("Clover runs language models on CPUs.", "clover");
  clover::Action action;
  program.require_subcommand(0, 1);
  program.set_version_flag("--version", "clover " CLOVER_VERSION, "Print the version and exit");
  program.failure_message([](const CLI::App*, const CLI::Error& error) {
    return "clover: " + std::string(error.what()) + " (clover -h or clover VERB -h helps)\n";
  });
  clover::add_generate(program, action);
  clover::add_chat(program, action);
  clover::add_serve(program, action, CLOVER_VERSION);
  clover::add_info(program, action);
  clover::add_tokenize(program, action);
  clover::add_bench(program, action);
  clover::add_eval(program, action);
  clover::add_report(program, action);
  clover::add_distill(program, action);
  clover::add_speculator(program, action);
  clover::add_train(program, action);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = program.exit(error);
    return status == 0 ? 0 : kUsage;
  }
  if (!action) {
    report("say what to do; clover -h lists the verbs");
    return kUsage;
  }
  try {
    if (asks_for_torch(program) && !clover::torch_is_linked()) clover::restart_with_torch();
    return action();
  } catch (const std::bad_alloc&) {
    return report("out of memory");
  } catch (const std::exception& error) {
    return report(error.what());
  }
}
