// SPDX-License-Identifier: Apache-2.0
#include "cli/line_reader.h"

#include <histedit.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <iostream>
#include <utility>

#include "base/error.h"

namespace clover {
namespace {

constexpr int kHistoryLines = 500;

}  // namespace

struct LineReader::Terminal {
  EditLine* editor = nullptr;
  History* history = nullptr;
  HistEvent event{};
  std::string prompt;
  bool interrupted = false;

  explicit Terminal(std::string text) : prompt(std::move(text)) {
    // The editor counts characters, so it has to know the encoding; nothing else depends on it.
    std::setlocale(LC_CTYPE, "C.UTF-8");
    editor = el_init("clover", stdin, stdout, stderr);
    history = history_init();
    if (editor == nullptr || history == nullptr)
      fail(ErrorCode::kIo, "cannot set up line editing on this terminal");
    ::history(history, &event, H_SETSIZE, kHistoryLines);
    ::history(history, &event, H_SETUNIQUE, 1);
    el_set(editor, EL_CLIENTDATA, this);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_PROMPT, &show_prompt);
    el_set(editor, EL_HIST, &::history, history);
    // Ctrl-C reaches the editor as a key: it drops the line instead of raising a signal.
    el_set(editor, EL_SETTY, "-d", "-isig", nullptr);
    el_set(editor, EL_ADDFN, "clover-interrupt", "drop the line", &interrupt);
    el_set(editor, EL_BIND, "^C", "clover-interrupt", nullptr);
    el_set(editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  }
  ~Terminal() {
    if (editor != nullptr) el_end(editor);
    if (history != nullptr) history_end(history);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  static Terminal& of(EditLine* editor) {
    void* data = nullptr;
    el_get(editor, EL_CLIENTDATA, &data);
    return *static_cast<Terminal*>(data);
  }
  static char* show_prompt(EditLine* editor) { return of(editor).prompt.data(); }
  static unsigned char interrupt(EditLine* editor, int) {
    of(editor).interrupted = true;
    return CC_EOF;
  }
};

LineReader::LineReader(std::string prompt) {
  if (isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1)
    terminal_ = std::make_unique<Terminal>(std::move(prompt));
}

LineReader::~LineReader() = default;

LineReader::Result LineReader::read(std::string& line) {
  if (!terminal_) return std::getline(std::cin, line) ? Result::kLine : Result::kEnd;
  terminal_->interrupted = false;
  int count = 0;
  const char* text = el_gets(terminal_->editor, &count);
  if (terminal_->interrupted) return Result::kInterrupted;
  if (text == nullptr || count <= 0) return Result::kEnd;
  line.assign(text, static_cast<size_t>(count));
  while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
  if (!line.empty()) history(terminal_->history, &terminal_->event, H_ENTER, line.c_str());
  return Result::kLine;
}

}  // namespace clover
