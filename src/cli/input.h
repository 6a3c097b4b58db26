// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace clover {

// A text given as -p TEXT, as -f FILE ("-": standard input), or else on standard input.
struct TextInput {
  std::string text;
  std::string file;
  CLI::Option* text_option = nullptr;
};

void add_text_options(CLI::App& verb, TextInput& input, const std::string& what);

// The text; one line end at the end of a file or of standard input is dropped, so that
// `echo TEXT |` is the same as `-p TEXT`. Errors as read_file; kExhausted above 64 MiB.
std::string read_text(const TextInput& input, bool quiet);

// Writes to standard output at once. Error(kIo) when it cannot be written.
void print(const std::string& text);

}  // namespace clover
