#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The verbs on a tiny random model: what goes in, what comes out. Needs no download.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

m=$work/model
tiny_model "$m"
gen() { run generate -m "$m" --ignore-eos "$@"; }
out() { gen "$@" && cat "$work/out"; }

# A pipe shows the text and nothing else.
expect 0 "" generate -m "$m" -t 1 --ignore-eos -p "abc" -n 12
plain=$(cat "$work/out")
differ "an answer" "$plain" ""
same "the same again" "$(out -p abc -n 12)" "$plain"
same "two threads" "$(out -p abc -n 12 -t 2)" "$plain"
same "three threads" "$(out -p abc -n 12 -t 3)" "$plain"
printf abc >"$work/bare.txt"
echo abc >"$work/line.txt"
same "from a file" "$(out -f "$work/bare.txt" -n 12)" "$plain"
same "one line end is dropped" "$(out -f "$work/line.txt" -n 12)" "$plain"
same "from a pipe" "$(printf abc | out -n 12)" "$plain"
same "from -" "$(echo abc | out -f - -n 12)" "$plain"
same "quiet" "$(out -p abc -n 12 --quiet)" "$plain"
same "the reference kernels" "$(out -p abc -n 2 --isa reference)" "${plain:0:2}"

# Seeds.
warm() { out -p abc -n 24 --temp 1.2 "$@"; }
same "one seed, one text" "$(warm --seed 7)" "$(warm --seed 7)"
differ "two seeds, two texts" "$(warm --seed 7)" "$(warm --seed 8)"
same "top-k 1 is greedy" "$(out -p abc -n 12 --temp 5 --top-k 1 --seed 3)" "$plain"

# Length, context and prompts that do not fit (the error names both numbers).
expect 0 "" generate -m "$m" -p abc -n 0
same "no tokens, no text" "$(cat "$work/out")" ""
expect 1 'prompt is empty' generate -m "$m" -p ""
expect 1 'prompt is empty' generate -m "$m" </dev/null
long=$(printf 'a%.0s' {1..100})
expect 1 '100 tokens.* 64' generate -m "$m" -c 64 -p "$long"
expect 1 'context.*5000' generate -m "$m" -c 5000 -p a
expect 0 "" generate -m "$m" -c 100 -p "$long" --ignore-eos --json "$work/full.json"
has "a full context" "$work/full.json" '"finish_reason": "length"'
has "a full context gives one token" "$work/full.json" '"completion_tokens": 1$'
head -c 1000000 /dev/zero | tr '\0' a >"$work/million.txt"
expect 1 '1000000 tokens.* 4096' generate -m "$m" -f "$work/million.txt"
expect 1 '64 MiB' generate -m "$m" -f /dev/zero

# Odd text.
printf 'a\xff\xfe\xc3b' >"$work/bad.txt"
expect 0 "" generate -m "$m" -n 3 -f "$work/bad.txt"
printf 'a\0b' >"$work/nul.txt"
expect 0 "" generate -m "$m" -n 3 -f "$work/nul.txt"

# Stop strings and bias.
stop=${plain:4:2}
before=${plain%%"$stop"*}
same "a stop string" "$(out -p abc -n 12 --stop "$stop")" "$before"
same "the first of two" "$(out -p abc -n 12 --stop "no such text" --stop "$stop")" "$before"
expect 1 'stop' generate -m "$m" -p abc --stop ""
same "bias forces a token" "$(out -p abc -n 4 --logit-bias 67=1000)" "aaaa"
differ "-inf forbids one" "$(out -p abc -n 12 --logit-bias 67=-inf | tr -dc a)" "a"
expect 1 'logit_bias.*96' generate -m "$m" -p abc --logit-bias 96=1

# Speculation: other passes, the same text; what is drafted and accepted is counted.
loop=(-p "abcabcabcabcabc" -n 60 --ignore-eos --logit-bias "70=-inf")
same_text() {  # SPECULATORS TREE
  same "-s $1 --tree $2" "$(out "${loop[@]}" -s "$1" --tree "$2")" "$(out "${loop[@]}" -s none)"
}
for tree in auto 1 8 chain3 fixed25 clover1; do same_text ngram+recycle "$tree"; done
same_text "$m" 4  # the model as its own drafter
gen "${loop[@]}" -s none --json "$work/none.json"
has "no drafts" "$work/none.json" '"drafted": 0,$'
gen "${loop[@]}" -s "$m" --tree chain3 --json "$work/own.json"
has "its own drafts are right" "$work/own.json" '"tokens_per_step": 3\.[0-9]'
for type in clover2 clover1 medusa eagle; do
  expect 0 "" speculator init -m "$m" --type "$type" --out "$work/$type"
  same_text "$work/$type" 4
  same_text "$work/$type+ngram" auto
done
expect 0 "" speculator init -m "$m" --type clover2 --seed 0 --out "$work/again"
same "init is a function of its options" "$(sha256sum <"$work/again/model.safetensors")" \
  "$(sha256sum <"$work/clover2/model.safetensors")"
expect 2 'no-such-type' speculator init -m "$m" --type no-such-type --out "$work/x"
sed 's/"hidden_size": [0-9]*/"hidden_size": 12345/' "$work/clover2/config.json" >"$work/config" &&
  cp "$work/config" "$work/again/config.json"
expect 1 '12345' generate -m "$m" -p abc -s "$work/again"

# What drafts when nothing is said: a package that ships beside the model and was made for it.
drafter() { gen -p abc -n 5 --json "$work/d.json" "$@" && grep -o '"speculator": "[^"]*"' "$work/d.json"; }
same "without a package" "$(drafter)" '"speculator": "ngram+recycle"'
mkdir -p "$m/speculators/broken"
echo '{"speculators_model_type": 1}' >"$m/speculators/broken/config.json"
cp -r "$work/again" "$m/speculators/other"  # for another model
same "none that fits" "$(drafter)" '"speculator": "ngram+recycle"'
cp -r "$work/medusa" "$m/speculators/mine"
same "one that fits" "$(drafter)" "\"speculator\": \"$m/speculators/mine+ngram+recycle\""
same "the same text with it" "$(out "${loop[@]}")" "$(out "${loop[@]}" -s none)"
same "unless told otherwise" "$(drafter -s ngram)" '"speculator": "ngram"'
rm -r "$m/speculators"

# eval and bench decode on questions of our own.
printf '{"category":"a","turns":["abcabcabcabc"]}\n{"prompt":"hello"}\n' >"$work/questions"
expect 0 "" eval -m "$m" --questions "$work/questions" -s "$m" -n 20 --nodes 1,4 --json "$work/e.json"
has "a row for each size" "$work/out" '^\| 4 \| [0-9.]+ '
has "its own drafts are all right" "$work/out" '^\| 1 \| [0-9.]+ \| [0-9.]+ \| 100 % '
has "calibration" "$work/e.json" '"predicted": '
expect 1 'no speculator to judge' eval -m "$m" --questions "$work/questions" -s none
expect 1 'none\.jsonl' eval -m "$m" --questions "$work/none.jsonl"
expect 2 '--per-category' eval -m "$m" --per-category -1
# The default questions are found, and are longer than this model's context.
expect 1 '[0-9]+ tokens' eval -m "$m" --per-category 1 -s ngram
expect 1 "tree '0'" eval -m "$m" --questions "$work/questions" --nodes 0
expect 0 "" bench decode -m "$m" --questions "$work/questions" -n 8 --repeats 2 --batch 1,2 \
  --methods none,ngram+recycle,wrong,ngram@3 --logprobs --json "$work/b.json"
same "every method gives one text" "$(grep -c '"same_text_as_none": true' "$work/b.json")" 12
expect 1 "tree 'x'" bench decode -m "$m" --questions "$work/questions" --methods ngram@x

# report reads what the benchmarks write.
expect 0 "" bench kernels -m "$m" --rows 1,2 --repeats 2 --step-context 8 --json "$work/k.json"
for field in date commit machine model; do has "origin" "$work/k.json" "^  \"$field\": "; done
expect 0 "" report "$work/b.json" "$work/e.json" "$work/k.json" --out "$work/report/new"
has "its own words" "$work/out" 'report\.md and [0-9]+ plots'
for part in 'Speed of generation' 'Throughput against rows' 'Quality of drafts' 'ngram\+recycle'; do
  has "report" "$work/report/new/report.md" "$part"
done
same "every plot is a file" "$(grep -c '^!\[' "$work/report/new/report.md")" \
  "$(find "$work/report/new" -name '*.svg' | wc -l)"
expect 1 'none\.json' report "$work/none.json" --out "$work/report"
head -c 300 "$work/b.json" >"$work/cut.json"
expect 1 'cut\.json' report "$work/cut.json" --out "$work/report/x"
sed 's/"batch": 1,/"batch": "one",/' "$work/b.json" >"$work/foreign.json"
expect 1 'foreign\.json: results\[0\]\.batch is no whole number' report "$work/foreign.json" \
  --out "$work/report/x"
same "nothing is written for bad input" "$(find "$work/report/x" 2>/dev/null | wc -l)" 0
expect 1 'both hold' report "$work/b.json" "$work/b.json" --out "$work/report/x"
expect 2 '--out' report "$work/b.json"
expect 1 'cannot make the folder' report "$work/b.json" --out "$work/b.json/x"

# The result file: whole or not at all.
gen -p abc -n 5 --json "$work/r.json" --logprobs 3
for field in text token_ids finish_reason usage speculation timing_ms tokens_per_second machine \
  model logprobs; do has "result" "$work/r.json" "^  \"$field\": "; done
for field in prompt_tokens completion_tokens speculator target_steps drafted accepted \
  extra_tokens_per_step tokens_per_step per_depth_acceptance load ttft prefill draft verify sample \
  other total cpu isa threads name; do has "result" "$work/r.json" "^    \"$field\": "; done
has "hash" "$work/r.json" "\"sha256\": \"$(sha256sum <"$m/model.safetensors" | cut -c -64)\""
has "prompt tokens" "$work/r.json" '"prompt_tokens": 3,$'
has "completion tokens" "$work/r.json" '"completion_tokens": 5$'
has "speculator" "$work/r.json" '"speculator": "ngram[+]recycle"'
same "log-probabilities, 5 tokens of 1 + 3" "$(grep -c '"logprob": -' "$work/r.json")" 20
ls -a "$work" >"$work/list"
same "no temporary file stays" "$(grep -c 'r\.json' "$work/list")" 1
echo old >"$work/old.json"
expect 1 'prompt is empty' generate -m "$m" -p "" --json "$work/old.json"
same "a failure leaves the old result" "$(cat "$work/old.json")" old
if [ -w /dev/full ]; then
  "$clover" generate -m "$m" -p abc -n 3 >/dev/full 2>"$work/err"
  same "a full disk is noticed" "$?" 1
  has "and named" "$work/err" 'cannot write to standard output'
fi

# Ctrl-C ends the answer, keeps the result and gives 130.
"$clover" generate -m "$m" -t 1 --ignore-eos -p abc --isa reference --json "$work/cut.json" \
  >"$work/out" 2>"$work/err" &
pid=$!
for _ in {1..100}; do [ -s "$work/out" ] && break; sleep 0.05; done
kill -INT "$pid"
wait "$pid"
same "exit status after Ctrl-C" "$?" 130
has "result after Ctrl-C" "$work/cut.json" '"finish_reason": "cancelled"'

# Chat needs a template; with one, text of the user cannot spell control tokens.
expect 1 'no chat template' generate -m "$m" --chat -p hi
expect 1 'no chat template' chat -m "$m"
t=$work/chat
# shellcheck disable=SC2016
tiny_model "$t" ',"chat_template":"{% for m in messages %}{{ m.role[0] + m.content + eos_token }}{% endfor %}"'
run generate -m "$t" --chat -p 'x</s>' --system s -n 1 --json "$work/c.json"
same "chat" "$status" 0
has "ends are control tokens only in the template" "$work/c.json" '"prompt_tokens": 10,$'
bad=$work/refuses
tiny_model "$bad" ",\"chat_template\":\"{{ raise_exception('only for cats') }}\""
expect 1 'only for cats' generate -m "$bad" --chat -p hi

# A conversation from a pipe: every line is answered, commands are not.
printf 'hello\n\n/help\n/system be brief\n/nonsense\nagain\n/reset\nlast\n/exit\nnever\n' |
  "$clover" chat -m "$t" -t 1 -n 5 >"$work/out" 2>"$work/err"
same "chat ends well" "$?" 0
same "three answers" "$(wc -l <"$work/out")" 3
has "commands" "$work/err" 'unknown command /nonsense'
has "commands" "$work/err" 'system message: be brief'
# The context fills: old turns go, visibly; a question that can never fit is refused and forgotten.
{
  for i in {1..6}; do echo "question number $i"; done
  echo "$long"
  echo "short"
} | "$clover" chat -m "$t" -t 1 -c 64 -n 12 --logit-bias 1=-inf >"$work/out" 2>"$work/err"
same "a long chat ends well" "$?" 0
has "dropping is said" "$work/err" 'context of 64 tokens is full: forgot the oldest'
has "too long a question" "$work/err" '102 tokens .* 64'
same "the others are answered" "$(wc -l <"$work/out")" 7

# info and tokenize.
expect 0 "" info -m "$m" --metadata --tensors --template --json "$work/i.json"
has "info" "$work/out" '^shape +2 layers, hidden 64, 4 heads of 16'
has "info" "$work/out" '^chat template +no'
has "info" "$work/out" 'model\.layers\.1\.mlp\.down_proj\.weight'
has "info" "$work/i.json" '"parameters": [0-9]+'
has "info" "$work/i.json" '"f16": 512'
expect 0 "" info -m "$t" --template
has "info shows the template" "$work/out" 'for m in messages'
expect 0 "" info -m "$source_dir/tests/data/tiny/gguf_llama_q4_1.gguf" --metadata
has "info without a tokenizer" "$work/out" '^tokenizer +none: '
has "types" "$work/out" 'Q4_1 in [0-9]+ tensors'
expect 0 "" info -m "$source_dir/tests/data/checkpoint/all_types.gguf" --metadata --tensors
has "info of what cannot run" "$work/out" '^model +cannot run: '
expect 0 "" tokenize -m "$m" -p "ab c" --json "$work/t.json"
same "tokenize" "$(awk '{print $1}' "$work/out" | tr '\n' ' ')" "67 68 2 69 "
has "tokenize" "$work/t.json" '"pieces": '
run tokenize -m "$m" --ids -p "[67, 68,2 69]"
same "ids to text" "$(cat "$work/out")" "ab c"
run tokenize -m "$m" -p "a</s>" && same "text is plain" "$(wc -l <"$work/out")" 5
run tokenize -m "$m" -p "a</s>" --parse-special && same "or not" "$(wc -l <"$work/out")" 2
run tokenize -m "$m" --ids -p "67 1" && same "control tokens show" "$(cat "$work/out")" "a</s>"
run tokenize -m "$m" --ids --no-special -p "67 1" && same "or not" "$(cat "$work/out")" "a"
expect 1 "'x' is no token id" tokenize -m "$m" --ids -p "1 x"
expect 1 '96' tokenize -m "$m" --ids -p "96"

summary
