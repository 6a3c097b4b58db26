#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The program on a terminal (made by script(1)): line editing, Ctrl-C, statistics.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

m=$work/model
tiny_model "$m" ',"chat_template":"{% for m in messages %}{{ m.content }}{% endfor %}"'

# on_terminal COMMAND: its screen in $work/out; keys come from standard input.
on_terminal() {
  TERM=xterm timeout 60 script -qec "$1" /dev/null >"$work/out" 2>"$work/err"
  status=$?
  tr -d '\r' <"$work/out" >"$work/screen"
}
keys() {  # TEXT...: typed one after the other, as fast as a person
  sleep 1
  local text
  for text in "$@"; do printf '%b' "$text" && sleep 0.3; done
}

sleep 2 | on_terminal "'$clover' generate -m '$m' -p abc -n 8 --ignore-eos"
same "generate" "$status" 0
has "statistics" "$work/screen" '^\[prompt 3 tokens, answer 8 tokens, [0-9.]+ tokens/s, first after'
sleep 2 | on_terminal "'$clover' generate -m '$m' -p abc -n 8 --ignore-eos --quiet"
same "quiet has none" "$(grep -c 'tokens/s' "$work/screen")" 0

# Backspace edits, arrow up repeats, Ctrl-C drops the line, Ctrl-D leaves.
chat="'$clover' chat -m '$m' -t 1 -n 3"
keys '/sx\b\bsystem one\r' '/nonsense' '\003' '/system\r' '\004' | on_terminal "$chat"
same "Ctrl-D leaves" "$status" 0
same "Ctrl-C drops the line" "$(grep -c 'unknown command' "$work/screen")" 0
keys '/system one\r' '\033[A\r' '\004' | on_terminal "$chat"
same "arrow up repeats" "$(grep -c '^\[system message: one\]' "$work/screen")" 2

# Ctrl-C during an answer stops that answer only.
keys 'endless\r' '\003' '/system alive\r' '\004' |
  on_terminal "'$clover' chat -m '$m' -t 1 --isa reference --logit-bias 1=-inf"
same "the chat goes on" "$status" 0
has "the answer stops" "$work/screen" '^\[stopped\]'
has "and the chat goes on" "$work/screen" '^\[system message: alive\]'

summary
