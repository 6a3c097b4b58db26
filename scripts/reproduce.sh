#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures everything that the documents say about speed, and makes the report of it.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: scripts/reproduce.sh [quick|full] [OUT]
  quick   every table and plot in small: few questions, short answers (within 15 minutes on two
          cores; default)
  full    all questions, batches of 1 to 48, 5 repeats, llama.cpp beside Clover (hours)
Results and report.md go into OUT (default: results/quick or results/full). A result file that is
there is kept, so that a run that was cut off goes on where it stopped; delete what is to be
measured again. Results of another commit are never kept beside new ones: that is an error.
Builds the program and fetches the model first.
TEXT
}

mode=${1:-quick}
case $mode in
  quick)
    batches=(1 8) repeats=3 tokens=48 questions=(--per-category 1)
    eval_questions=(--per-category 1) rows=1,2,4,8,16,32 nodes=1,4,16
    ;;
  full)
    batches=(1 4 8 16 24 32 48) repeats=5 tokens=128 questions=()
    eval_questions=() rows=1,2,3,4,6,8,12,16,24,32,48,64 nodes=1,2,4,8,16,25,32,64
    ;;
  -h | --help) usage && exit 0 ;;
  *) usage >&2 && exit 2 ;;
esac
out=${2:-results/$mode}
methods=none,ngram,recycle,ngram+recycle,ngram+recycle@8
speculators=(ngram recycle ngram+recycle)
clover=build/clover

./scripts/setup.sh build model
cmake --preset release -DCMAKE_MESSAGE_LOG_LEVEL=WARNING >/dev/null
cmake --build --preset release --target clover
mkdir -p "$out"

# The commit that the results in OUT are of; a folder holds one.
commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
if [ -f "$out/commit" ] && [ "$(cat "$out/commit")" != "$commit" ]; then
  echo "reproduce: $out holds results of commit $(cat "$out/commit"), and this is $commit; name" \
    "another folder or delete it" >&2
  exit 1
fi
echo "$commit" >"$out/commit"

# Runs a command of clover that writes NAME.json, unless it is there. A result is written whole or
# not at all, so a file that exists is finished.
result() {  # NAME ARGUMENT...
  local name=$1
  shift
  if [ -s "$out/$name.json" ]; then
    printf '[%dm%02ds] %s: kept\n' $((SECONDS / 60)) $((SECONDS % 60)) "$name"
    return
  fi
  printf '[%dm%02ds] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$name"
  "$clover" "$@" --quiet --json "$out/$name.json" >"$out/$name.txt"
}

result kernels bench kernels --rows "$rows" --repeats "$repeats"
for batch in "${batches[@]}"; do
  result "decode-$batch" bench decode --methods "$methods" --batch "$batch" --repeats "$repeats" \
    -n "$tokens" "${questions[@]}"
done
for batch in "${batches[0]}" "${batches[-1]}"; do
  result "decode-$batch-sampled" bench decode --methods "$methods" --batch "$batch" \
    --repeats "$repeats" -n "$tokens" --temp 1 --seed 1 "${questions[@]}"
done
for speculator in "${speculators[@]}"; do
  result "eval-$speculator" eval -s "$speculator" --nodes "$nodes" -n "$tokens" \
    "${eval_questions[@]}"
done
if [ "$mode" = full ] && [ ! -s "$out/llama_cpp.json" ]; then
  bench/peers/compare_llama.sh --repeats "$repeats" --tokens "$tokens" --out "$out"
fi
"$clover" report "$out" --out "$out"
printf '[%dm%02ds] done\n' $((SECONDS / 60)) $((SECONDS % 60))
