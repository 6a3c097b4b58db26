#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Wrong command lines and files that are not there: exit status and message.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# Help is no error; a missing or unknown verb or option is one of usage.
for verb in "" generate chat info tokenize; do
  # shellcheck disable=SC2086
  expect 0 "" $verb --help
  has "help of '$verb'" "$work/out" '^Usage: '
done
expect 2 'say what to do'
expect 2 'exactly|at most|not expected' info info
expect 2 'frobnicate' frobnicate
expect 2 'not expected: --bogus' generate --bogus
expect 2 'not expected: .*--json' chat --json x
expect 2 'excludes' generate -p a -f b
expect 2 '--system' generate --system s -p a
expect 2 '--logprobs' generate -p a --logprobs 2

# The version is that of the build's project.
expect 0 "" --version
same "version" "$(cat "$work/out")" \
  "clover $(sed -n 's/^project(clover VERSION \([0-9.]*\) .*/\1/p' "$source_dir/CMakeLists.txt")"
has "version" "$work/out" '^clover [0-9]+\.[0-9]+\.[0-9]+$'

# Values are checked before anything is loaded.
expect 2 '-n.*0 to .*-5' generate -p a -n -5
expect 2 "whole number, not '3x'" generate -p a -n 3x
expect 2 "whole number, not '99999999999999999999'" generate -p a -n 99999999999999999999
expect 2 'temperature.*nan' generate -p a --temp nan
expect 2 'temperature' generate -p a --temp -1
expect 2 'temperature' generate -p a --temp inf
expect 2 "a number, not 'hot'" generate -p a --temp hot
expect 2 'top_p' generate -p a --top-p 0
expect 2 'min_p' generate -p a --min-p 1.5
expect 2 'top-k' generate -p a --top-k -1
expect 2 'repetition_penalty' generate -p a --repeat-penalty 0
expect 2 'presence_penalty' generate -p a --presence-penalty 3
expect 2 'frequency_penalty' generate -p a --frequency-penalty nan
expect 2 "from 0 up, not '-1'" generate -p a --seed -1
expect 2 'ID=VALUE' generate -p a --logit-bias 5
expect 2 "not 'x'" generate -p a --logit-bias x=1
expect 2 "not 'y'" generate -p a --logit-bias 5=y
expect 2 'logit_bias' generate -p a --logit-bias -1=2
expect 2 'logit_bias' generate -p a --logit-bias 3=1 --logit-bias 3=2
expect 2 'logit_bias' generate -p a --logit-bias 3=nan
expect 2 '--threads' generate -p a -t 100000
expect 2 'neon' generate -p a --isa neon
expect 2 'tpu' generate -p a --device tpu
expect 2 'q4' generate -p a --kv-type q4
expect 2 '--logprobs' generate -p a --json x --logprobs 21
for tree in "" 0 257 chain chain0 fixed fast 4x; do expect 2 '--tree' generate -p a --tree "$tree"; done

# Files.
expect 1 'libtorch' generate -m "$work/none.gguf" -p a --device cuda
expect 1 'none\.gguf' generate -m "$work/none.gguf" -p a
expect 1 'none\.gguf' info -m "$work/none.gguf"
expect 1 'none\.gguf' tokenize -m "$work/none.gguf" -p a
expect 1 'none\.gguf' chat -m "$work/none.gguf" </dev/null
mkdir "$work/empty"
expect 1 'empty' generate -m "$work/empty" -p a
: >"$work/zero.gguf"
expect 1 'zero\.gguf' info -m "$work/zero.gguf"
echo "no model at all" >"$work/text.gguf"
expect 1 'text\.gguf' info -m "$work/text.gguf"
expect 1 'none\.txt' generate -m "$work/empty" -f "$work/none.txt"
expect 1 'empty' generate -m "$work/empty" -f "$work/empty"
expect 1 'nowhere' generate -m "$work/empty" -p a --json "$work/nowhere/out.json"
name=$(printf 'a\033[31mb\nc')
expect 1 'no speculator and no file .magic' generate -m "$work/empty" -p a -s magic
expect 1 'ngram.*twice' generate -m "$work/empty" -p a -s ngram+ngram
expect 1 "''" generate -m "$work/empty" -p a -s ngram+
expect 1 'no file .*/a .31mb c$' info -m "$work/$name"
cd "$work/empty" && cp "$clover" "$work/alone" 2>/dev/null
clover=$work/alone expect 1 'name one with -m' info

summary
