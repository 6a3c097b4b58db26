// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace clover {

// What the command line asked for: the verb that was named sets it while parsing, main() runs it
// afterwards. Returns the exit status; failures are thrown as Error.
using Action = std::function<int()>;

// Each adds one verb with its options to the program.
void add_generate(CLI::App& program, Action& action);
void add_chat(CLI::App& program, Action& action);
// `version` as --version prints it.
void add_serve(CLI::App& program, Action& action, const std::string& version);
void add_info(CLI::App& program, Action& action);
void add_tokenize(CLI::App& program, Action& action);
void add_bench(CLI::App& program, Action& action);
void add_bench_serve(CLI::App& bench, Action& action);  // a verb of bench
void add_eval(CLI::App& program, Action& action);
void add_report(CLI::App& program, Action& action);
void add_distill(CLI::App& program, Action& action);
void add_speculator(CLI::App& program, Action& action);
void add_speculator_table(CLI::App& group, Action& action);  // a verb of speculator
void add_train(CLI::App& program, Action& action);

}  // namespace clover
