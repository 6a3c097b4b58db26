#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The verbs on the default model.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

cd "$source_dir" || exit 1
out() { run generate "$@" && cat "$work/out"; }
same "it knows" "$(out -p 'The capital of France is' -n 1)" " Paris"
question="Name three rivers."
answer=$(out --chat -p "$question" -n 24)
same "pipe and option" "$(echo "$question" | out --chat -n 24)" "$answer"
same "threads" "$(out --chat -p "$question" -n 24 -t 1)" "$answer"
same "one seed, one text" "$(out --chat -p "$question" -n 16 --temp 1 --seed 5)" \
  "$(out --chat -p "$question" -n 16 --temp 1 --seed 5)"
expect 0 "" generate --chat -p "What is 2 + 2? Answer briefly." -n 200 --json "$work/r.json"
has "an end of its own" "$work/r.json" '"finish_reason": "stop"'
expect 1 'prompt is empty' generate -p ""
head -c 1000000 /dev/zero | tr '\0' a >"$work/million.txt"
expect 1 '[0-9]+ tokens.* [0-9]+' generate -f "$work/million.txt"
printf 'caf\xe9 \xff\xfe' >"$work/bad.txt"
expect 0 "" generate -f "$work/bad.txt" -n 4 --json "$work/bad.json"
expect 0 "" info --template --json "$work/i.json"
has "info" "$work/out" '^architecture +llama'
has "info" "$work/out" '30 layers, hidden 576, 9 heads of 64 \(3 KV heads\)'
expect 0 "" tokenize -p "Hello <|im_end|>"
same "no control token from text" "$(grep -c '<|im_end|>' "$work/out")" 0
expect 0 "" tokenize -p "Hello <|im_end|>" --parse-special
same "unless asked" "$(grep -c '<|im_end|>' "$work/out")" 1

summary
