#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `train` on a tiny random model: from distilled texts to a package that decodes.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

m=$work/model
tiny_model "$m" ',"chat_template":"{% for m in messages %}[{{ m.content }}]{% endfor %}"'
for i in {1..150}; do echo "{\"prompt\":\"question $i of many\"}"; done >"$work/p.jsonl"
echo '{"prompt":"alpha beta gamma delta epsilon zeta eta theta iota kappa"}' >"$work/eval.jsonl"
expect 0 "" distill -m "$m" -t 1 -c 256 -n 32 --prompts "$work/p.jsonl" --exclude "$work/eval.jsonl" \
  --greedy-share 1 --out "$work/data" --quiet

if [ ! -x "$(dirname "$clover")/clover-torch" ]; then
  # A build without libtorch says so.
  expect 1 'no libtorch' train -m "$m" --data "$work/data" --out "$work/run"
  summary
  exit
fi

train=(train -m "$m" -t 1 --data "$work/data" --draft-vocab 96 --held-out 0.2 --batch-tokens 512
  --eval-prompts 4 --eval-tokens 16 --eval-trees 4 --rate 0.003 --max-tokens 1000000)
field() { sed -n "s/^ *\"$1\": \([0-9]*\),\{0,1\}$/\1/p" "$2" | head -n 1; }
weights() { sha256sum <"$1/last/model.safetensors"; }

# From data to a package that decodes the same text.
expect 0 "" "${train[@]}" --out "$work/run" --max-steps 60 --eval-every 30 --quiet --json "$work/r.json"
same "nothing on standard output" "$(cat "$work/out")" ""
same "steps" "$(field steps "$work/r.json")" 60
has "held-out figures are called what they are (H6)" "$work/run/log.jsonl" 'teacher_forced_top1'
has "real decoding" "$work/run/log.jsonl" '"acceptance":\{"score":'
has "curves" "$work/run/loss.svg" '^<svg'
has "what it was trained on" "$work/run/best/config.json" '"recipe": "ours"'
generate=(generate -m "$m" -t 1 -p "question 7 of many" --chat -n 24 --quiet)
expect 0 "" "${generate[@]}" -s none
text=$(cat "$work/out")
expect 0 "" "${generate[@]}" -s "$work/run/best" --tree 4
same "the same text" "$(cat "$work/out")" "$text"
expect 0 "" info -m "$work/run/best"

# Stopped and resumed, also after kill -9: the same weights.
expect 1 'holds a run already; --resume' "${train[@]}" --out "$work/run" --max-steps 60 --quiet
expect 0 "" "${train[@]}" --out "$work/parts" --max-steps 60 --eval-every 30 --minutes 0.01 --save-every 5 --quiet
"$clover" "${train[@]}" --out "$work/parts" --max-steps 60 --eval-every 30 --save-every 5 --resume --quiet &
pid=$!
sleep 2
kill -9 "$pid" 2>/dev/null
wait "$pid" 2>/dev/null
expect 0 "" "${train[@]}" --out "$work/parts" --max-steps 60 --eval-every 30 --resume --quiet
same "resumed" "$(weights "$work/parts")" "$(weights "$work/run")"

# Ctrl-C saves and stops. Without job control a background process ignores SIGINT.
set -m
"$clover" "${train[@]}" --out "$work/stopped" --max-steps 100000 >"$work/out" 2>"$work/err" &
pid=$!
set +m
for _ in {1..600}; do
  [ -s "$work/stopped/log.jsonl" ] && break
  sleep 0.05
done
kill -INT "$pid"
wait "$pid"
same "status after Ctrl-C" "$?" 130
has "after Ctrl-C" "$work/err" 'with --resume goes on'
expect 0 "drafts 96 tokens|goes on at step" "${train[@]}" --out "$work/stopped" --max-steps 1 --resume

# Errors.
expect 1 'other settings: recipe/decay \(0.7 there, 0.5 here\)' "${train[@]}" --decay 0.5 --out "$work/run" --resume --quiet
expect 1 'no file .*manifest.json' "${train[@]}" --data "$work/none" --out "$work/x" --quiet
expect 1 'none of the .* texts has a token of an answer' "${train[@]}" --max-length 4 --out "$work/x" --quiet
expect 2 'data' train -m "$m" --out "$work/x"
expect 2 'preset' "${train[@]}" --preset clover9 --out "$work/x"
head -c 300 "$work"/data/shard-000000000000.bin >"$work/cut" && cp "$work/cut" "$work/data/shard-000000000000.bin"
expect 1 'shard-000000000000.bin.*truncated' "${train[@]}" --out "$work/x" --quiet

summary
