#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The program on a terminal (made by script(1)): line editing, Ctrl-C, statistics.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

m=$work/model
tiny_model "$m" ',"chat_template":"{% for m in messages %}{{ m.content }}{% endfor %}"'

# on_terminal COMMAND: its screen in $work/out; keys come from standard input.
# `exec`: a shell that stays would take the Ctrl-C as well and report it as its own end.
on_terminal() {
  TERM=xterm SHELL=/bin/sh timeout 60 script -qec "exec $1" /dev/null >"$work/out" 2>"$work/err"
  status=$?
  tr -d '\r' <"$work/out" >"$work/screen"
  : >"$work/out"  # the keys of the next one must not find this prompt
}
: >"$work/out"

# until_true COMMAND...: waits for it to succeed, half a minute at most.
until_true() {
  local i
  for ((i = 0; i < 300; i++)); do "$@" && return; sleep 0.1; done
}
# shellcheck disable=SC2317
screen_holds() { [ "$(wc -c <"$work/out")" -ge "$1" ]; }  # BYTES
# keys TEXT...: typed one after the other once the chat has shown its prompt; "@" waits until the
# program has written a good deal more.
keys() {
  until_true grep -q '> ' "$work/out"
  local text
  for text in "$@"; do
    if [ "$text" = @ ]; then
      until_true screen_holds $(($(wc -c <"$work/out") + 200))
    else
      printf '%b' "$text" && sleep 0.3
    fi
  done
}

on_terminal "'$clover' generate -m '$m' -p abc -n 8 --ignore-eos" < <(sleep 2)
same "generate" "$status" 0
has "statistics" "$work/screen" '^\[prompt 3 tokens, answer 8 tokens, [0-9.]+ tokens/s, first after'
on_terminal "'$clover' generate -m '$m' -p abc -n 8 --ignore-eos --quiet" < <(sleep 2)
same "quiet has none" "$(grep -c 'tokens/s' "$work/screen")" 0

# Backspace edits, arrow up repeats, Ctrl-C drops the line, Ctrl-D leaves.
chat="'$clover' chat -m '$m' -t 1 -n 3"
on_terminal "$chat" < <(keys '/sx\b\bsystem one\r' '/nonsense' '\003' '/system\r' '\004')
same "Ctrl-D leaves" "$status" 0
same "backspace edits" "$(grep -c '^\[system message: one\]' "$work/screen")" 2
same "Ctrl-C drops the line" "$(grep -c 'unknown command' "$work/screen")" 0
on_terminal "$chat" < <(keys '/system one\r' '\033[A\r' '\004')
same "arrow up repeats" "$(grep -c '^\[system message: one\]' "$work/screen")" 2

# Ctrl-C during an answer stops that answer only.
on_terminal "'$clover' chat -m '$m' -t 1 --isa reference --logit-bias 1=-inf" < <(keys 'endless\r' @ '\003' '/system alive\r' '\004')
same "the chat goes on" "$status" 0
has "the answer stops" "$work/screen" '^\[stopped\]'
has "and the chat goes on" "$work/screen" '^\[system message: alive\]'

summary
