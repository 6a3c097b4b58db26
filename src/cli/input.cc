// SPDX-License-Identifier: Apache-2.0
#include "cli/input.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace clover {
namespace {

constexpr size_t kMaxBytes = size_t{64} << 20;

// Reads to the end; works for pipes, devices and files alike.
std::string read_stream(std::FILE* stream, const std::string& name) {
  std::string text;
  std::array<char, 65536> part;
  size_t count = 0;
  while ((count = std::fread(part.data(), 1, part.size(), stream)) > 0) {
    if (text.size() + count > kMaxBytes)
      fail(ErrorCode::kExhausted, "{} holds more than the {} MiB that a text may have", name,
           kMaxBytes >> 20);
    text.append(part.data(), count);
  }
  if (std::ferror(stream) != 0)
    fail(ErrorCode::kIo, "cannot read {}: {}", name, std::strerror(errno));
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

void add_text_options(CLI::App& verb, TextInput& input, const std::string& what) {
  input.text_option = verb.add_option("-p,--prompt", input.text, what)->type_name("TEXT");
  verb.add_option("-f,--file", input.file,
                  "read it from FILE, - for standard input (default: standard input)")
      ->type_name("FILE")
      ->excludes(input.text_option);
}

std::string read_text(const TextInput& input, bool quiet) {
  if (input.text_option->count() > 0) return input.text;
  if (!input.file.empty() && input.file != "-") {
    const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(input.file.c_str(), "rb"));
    if (!file)
      fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "cannot open {}: {}",
           input.file, std::strerror(errno));
    return read_stream(file.get(), input.file);
  }
  if (!quiet && isatty(STDIN_FILENO) == 1)
    std::fputs("Type the text; Ctrl-D on an empty line ends it.\n", stderr);
  return read_stream(stdin, "standard input");
}

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    fail(ErrorCode::kIo, "cannot write to standard output: {}", std::strerror(errno));
}

}  // namespace clover
