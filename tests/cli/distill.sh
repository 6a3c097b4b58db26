#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `distill` on a tiny random model: from prompt files to a folder of shards and back.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

m=$work/model
tiny_model "$m" ',"chat_template":"{% for m in messages %}[{{ m.content }}]{% endfor %}"'
for i in {1..40}; do echo "{\"prompt\":\"question $i of many\"}"; done >"$work/p.jsonl"
gzip -c "$work/p.jsonl" >"$work/p.jsonl.gz"
echo '{"turns":["alpha beta gamma delta epsilon zeta eta theta iota kappa","second"]}' >"$work/eval.jsonl"
# The options of every run, and of most.
distill_any=(distill -m "$m" -t 1 -c 256 --exclude "$work/eval.jsonl")
distill_with=("${distill_any[@]}" -n 16 --shard 8)
sums() { (cd "$1" && cat shard-*.bin | sha256sum); }
field() { sed -n "s/^ *\"$1\": \([0-9]*\),\{0,1\}$/\1/p" "$2" | head -n 1; }

# From a compressed file to shards.
expect 0 "" "${distill_with[@]}" --prompts "$work/p.jsonl.gz" --out "$work/a" --quiet --json "$work/r.json"
same "nothing on standard output" "$(cat "$work/out")" ""
same "five shards and no other file" "$(ls "$work/a" | tr '\n' ' ')" \
  "manifest.json shard-000000000000.bin shard-000000000008.bin shard-000000000016.bin shard-000000000024.bin shard-000000000032.bin "
same "samples" "$(field samples "$work/r.json")" 40
has "manifest" "$work/a/manifest.json" '"fingerprint": "[0-9a-f]{64}"'
expect 0 "" info -m "$work/a"
has "info counts prompts" "$work/out" '^prompts +40 done, 0 of them dropped$'
has "info counts samples" "$work/out" '^samples +40: [0-9]+ greedy, [0-9]+ at temperature 1; 0 self-drawn'
has "info counts tokens" "$work/out" "^tokens .* $(field response_tokens "$work/r.json") of answers"
expect 0 "" info -m "$work/a" --json "$work/i.json"
same "info as JSON" "$(field samples "$work/i.json")" 40

# Content is a function of prompts and settings.
expect 0 "" "${distill_with[@]}" --prompts "$work/p.jsonl" --out "$work/b" --quiet --batch 3 -s ngram
same "plain file, other batch, speculation" "$(sums "$work/b")" "$(sums "$work/a")"
expect 0 "" "${distill_with[@]}" --prompts "$work/p.jsonl" --out "$work/c" --quiet --seed 1
differ "another seed" "$(sums "$work/c")" "$(sums "$work/a")"

# Notes, the estimate, and the warning that there is no exclusion.
expect 0 'at most .* on the disk' "${distill_with[@]}" --prompts "$work/p.jsonl" --out "$work/d"
has "what is left out" "$work/err" '^clover: 40 prompts from files$'
has "few tokens (H10)" "$work/err" 'note: a good speculator takes 1000000 tokens'
expect 0 'warning: no --exclude' distill -m "$m" -t 1 -c 256 -n 4 --prompts "$work/p.jsonl" --out "$work/e" --quiet

# Killed at any time and resumed: the same bytes.
big=("${distill_with[@]}" --prompts "$work/p.jsonl" --self 300 --out)
expect 0 "" "${big[@]}" "$work/whole" --quiet
for wait in 0.05 0.15 0.3 0.5; do
  "$clover" "${big[@]}" "$work/killed" --quiet 2>/dev/null &
  pid=$!
  sleep "$wait"
  kill -9 "$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
done
touch "$work/killed/shard-000000099999.bin.1-0.tmp"
expect 0 "" "${big[@]}" "$work/killed" --quiet
same "resumed after kill -9" "$(sums "$work/killed")" "$(sums "$work/whole")"
same "no half-written file" "$(find "$work/killed" -name '*.tmp' | wc -l)" 0

# Ctrl-C finishes a shard and stops. Without job control a background process ignores SIGINT.
rm -rf "$work/killed"
set -m
"$clover" "${big[@]}" "$work/killed" >"$work/out" 2>"$work/err" &
pid=$!
set +m
for _ in {1..200}; do
  [ -n "$(find "$work/killed" -name 'shard-*.bin' 2>/dev/null)" ] && break
  sleep 0.02
done
kill -INT "$pid"
wait "$pid"
status=$?
if [ "$status" -ne 0 ]; then # it may have been done before the signal came
  same "status after Ctrl-C" "$status" 130
  has "after Ctrl-C" "$work/err" 'the same command goes on'
fi
expect 0 "" "${big[@]}" "$work/killed" --quiet
same "resumed after Ctrl-C" "$(sums "$work/killed")" "$(sums "$work/whole")"

# A disk that is full (a limit on the size of files stands for it): finished shards are kept.
(
  trap '' XFSZ
  ulimit -f 4
  exec "$clover" "${distill_any[@]}" --prompts "$work/p.jsonl" --shard 20 -n 200 --out "$work/full" --quiet
) >"$work/out" 2>"$work/err"
same "status when the disk is full" "$?" 1
has "the error names the file" "$work/err" 'cannot write .*full/'
same "nothing half-written" "$(find "$work/full" -name '*.tmp' | wc -l)" 0

# Exclusion, duplicates, conversations, bad records.
cat >"$work/mixed.jsonl" <<'TEXT'
{"turns":["one","two"]}
{"prompt":"So: Alpha, beta; gamma delta epsilon zeta eta theta iota KAPPA!"}
{"prompt":"Second."}
{"prompt":"one"}
{"prompt":"one"}
TEXT
expect 0 '3 .*left out|2 left out as excluded' "${distill_with[@]}" --prompts "$work/mixed.jsonl" --out "$work/mixed"
has "excluded" "$work/err" '2 prompts from files, 2 left out as excluded, 1 as duplicates'
printf '{"prompt":"a"}\nnot json\n' >"$work/bad.jsonl"
expect 1 'bad\.jsonl, line 2' "${distill_with[@]}" --prompts "$work/bad.jsonl" --out "$work/x" --quiet
expect 0 "" "${distill_with[@]}" --prompts "$work/bad.jsonl" --skip-bad --out "$work/x" --quiet
has "bad ones are counted" "$work/x/manifest.json" '"bad": 1'

# An n-gram table of the data, and the same text with it.
table=(speculator table -m "$m" -t 1 --data "$work/a")
expect 0 '^clover: [0-9]+ tokens of [0-9]+ texts gave' "${table[@]}" --out "$work/t"
expect 0 "" "${table[@]}" --out "$work/t2" --quiet
same "the table is a function of the data" "$(sha256sum <"$work/t2/model.safetensors")" "$(sha256sum <"$work/t/model.safetensors")"
expect 0 "" "${table[@]}" --size 1 --next 1 --out "$work/t2" --quiet
[ "$(wc -c <"$work/t2/model.safetensors")" -lt 4000 ] || fail "a table of one kilobyte is small"
expect 0 "" info -m "$work/t"
has "info names the table" "$work/out" '^speculator +ngram_table'
ask=(generate -m "$m" -t 1 -c 256 -n 60 -p "question 3 of many" --quiet)
expect 0 "" "${ask[@]}" -s none
cp "$work/out" "$work/plain.txt"
expect 0 "" "${ask[@]}" -s "$work/t" --tree 8 --json "$work/r.json"
same "the text with the table" "$(cat "$work/out")" "$(cat "$work/plain.txt")"
[ "$(field accepted "$work/r.json")" -gt 10 ] || fail "the table drafts what the model says"
expect 0 "" speculator init -m "$m" --heads 2 --out "$work/head"
expect 0 "" "${table[@]}" --head "$work/head" --out "$work/both" --quiet
expect 0 "" "${ask[@]}" -s "$work/both" --tree 8
same "the text with both" "$(cat "$work/out")" "$(cat "$work/plain.txt")"
expect 1 'is no speculator package' "${table[@]}" --out "$work/a" --quiet
expect 1 'no file .*manifest.json' speculator table -m "$m" --data "$work/t" --out "$work/t3" --quiet
expect 1 'was written by another model' speculator table -m "$source_dir/tests/data/tiny/gguf_llama_q8_0.gguf" --data "$work/a" --out "$work/t3" --quiet
expect 2 'size' "${table[@]}" --size 0 --out "$work/t3"
expect 2 'next' "${table[@]}" --next 9 --out "$work/t3"

# Errors.
: >"$work/empty"
out=(--out "$work/y" --quiet)
expect 1 'empty holds no prompt' "${distill_with[@]}" --prompts "$work/empty" "${out[@]}"
expect 1 'empty holds no prompt' distill -m "$m" --prompts "$work/p.jsonl" --exclude "$work/empty" "${out[@]}"
expect 1 'no file .*/none' "${distill_with[@]}" --prompts "$work/none" "${out[@]}"
head -c 100 "$work/p.jsonl.gz" >"$work/cut.gz"
expect 1 'cut.gz.*gzip' "${distill_with[@]}" --prompts "$work/cut.gz" "${out[@]}"
echo "{\"prompt\":\"$(printf 'a%.0s' {1..300})\"}" >"$work/long.jsonl"
expect 1 'no prompt is left' "${distill_with[@]}" --prompts "$work/long.jsonl" "${out[@]}"
expect 1 '-n 256.*context of 256' "${distill_any[@]}" -n 256 --prompts "$work/p.jsonl" "${out[@]}"
expect 1 'made with other settings \(seed 0, not 5\)' "${distill_with[@]}" --seed 5 --prompts "$work/p.jsonl" --out "$work/a" --quiet
expect 1 'answers to other prompts' "${distill_with[@]}" --prompts "$work/mixed.jsonl" --out "$work/a" --quiet
expect 2 'prompts or --self' distill -m "$m" --out "$work/y"
expect 2 'out' distill -m "$m" --prompts "$work/p.jsonl"
expect 2 'greedy-share' "${distill_with[@]}" --greedy-share 1.5 --prompts "$work/p.jsonl" "${out[@]}"
expect 1 'cannot make the folder' "${distill_with[@]}" --prompts "$work/p.jsonl" --out "$work/p.jsonl/z" --quiet
head -c 300 "$work/a/shard-000000000008.bin" >"$work/cut" && cp "$work/cut" "$work/a/shard-000000000008.bin"
expect 1 'shard-000000000008.bin.*truncated' info -m "$work/a"
expect 1 'shard-000000000008.bin.*truncated' "${distill_with[@]}" --prompts "$work/p.jsonl" --out "$work/a" --quiet
plain=$work/plain
tiny_model "$plain"
expect 1 'no chat template' distill -m "$plain" --self 3 --exclude "$work/eval.jsonl" "${out[@]}"

summary
