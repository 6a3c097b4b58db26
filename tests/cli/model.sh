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

# One question of each category of our own set, which is the default.
expect 0 "" eval --per-category 1 -s ngram --nodes 1 -n 2 --json "$work/own.json"
for category in chat code maths translation summarisation retrieval multi_turn long_context; do
  has "own questions" "$work/own.json" "\"$category\": [0-9.]+"
done

# The file is not kept beside the weights: no mapping is left, and memory never held both.
mkfifo "$work/in"
"$clover" chat --quiet -n 4 -c 1024 <"$work/in" >"$work/out" 2>"$work/err" &
pid=$!
exec 3>"$work/in"
echo "What is 2 + 2?" >&3
for _ in {1..1200}; do
  [ "$(wc -l <"$work/out")" -ge 1 ] && break
  sleep 0.1
done
grep -c '\.gguf' "/proc/$pid/maps" >"$work/mapped"
peak_kib=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status")
exec 3>&-
wait "$pid"
same "the chat ends well" $? 0
same "mappings of the model file" "$(cat "$work/mapped")" 0
# 1.4 times the file, 22.5 KiB of keys and values a token, and the program itself.
bytes=$(stat -L -c %s "$source_dir/models/SmolLM2-135M-Instruct.Q4_1.gguf")
limit_kib=$((bytes * 14 / 10 / 1024 + 1024 * 45 / 2 + 16 * 1024))
same "peak memory of ${peak_kib} KiB is at most ${limit_kib}" \
  "$((peak_kib > 0 && peak_kib <= limit_kib))" 1

summary
