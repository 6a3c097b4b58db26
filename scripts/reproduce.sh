#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures everything that the documents say about speed, and makes the report of it.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: scripts/reproduce.sh [quick|full] [OUT [FOLDER...]]
  quick   every table and plot in small: few questions, short answers (within 15 minutes on two
          cores; default); no peers, nothing is trained
  full    ten questions a category, batches of 1 to 48, 5 repeats, other engines, short trainings
          of every kind of speculator if the program has libtorch (scripts/setup.sh torch) (hours)
  FOLDER  speculator packages, or runs of `clover train`, to be judged as well; a run's best package
          is, and its log becomes a curve
Results and report.md go into OUT (default: results/quick or results/full). A result file that is
there is kept, so that a run that was cut off goes on where it stopped; delete what is to be
measured again. Results of another commit are never kept beside new ones: that is an error.
Builds the program and fetches the model first.
TEXT
}

mode=${1:-quick}
case $mode in
  quick)
    batches=(1 8) repeats=3 tokens=32 questions=(--per-category 1) rows=1,2,4,8,16,32
    nodes=1,4,16 depths=1,2,4 train_tokens=0
    ;;
  full)
    batches=(1 4 8 16 24 32 48) repeats=5 tokens=128 questions=(--per-category 10)
    rows=1,2,3,4,6,8,12,16,24,32,48,64 nodes=1,2,4,8,16,25,32,64 depths=1,2,3,4,5,6,7,8
    train_tokens=100000
    ;;
  -h | --help) usage && exit 0 ;;
  *) usage >&2 && exit 2 ;;
esac
out=${2:-results/$mode}
shift $(($# < 2 ? $# : 2))
clover=build/clover
trainer=build/clover-torch
notes=()

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

say() { printf '[%dm%02ds] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }
note() {
  notes+=(--note "$*")
  say "$*"
}

# Runs a command of clover that writes NAME.json, unless it is there. A result is written whole or
# not at all, so a file that exists is finished.
result() {  # NAME ARGUMENT...
  local name=$1
  shift
  if [ -s "$out/$name.json" ]; then
    say "$name: kept"
    return
  fi
  say "$name"
  "$clover" "$@" --quiet --json "$out/$name.json" >"$out/$name.txt"
}

# Trains a speculator for $train_tokens tokens; a run that is there goes on.
train() {  # NAME ARGUMENT...
  local name=$1
  shift
  say "training $name"
  "$trainer" train --data "$out/data" --out "$out/train/$name" --resume --cache-features --quiet \
    --max-tokens "$train_tokens" --eval-every 25 --log-every 5 "$@"
  runs+=("$out/train/$name")
}

runs=() packages=()
for folder in "$@"; do
  if [ -f "$folder/log.jsonl" ]; then
    runs+=("$folder")
  elif [ -f "$folder/config.json" ]; then
    packages+=("$folder")
  else
    echo "reproduce: $folder is neither a package (config.json) nor a training run (log.jsonl)" >&2
    exit 2
  fi
done
if [ "$train_tokens" -eq 0 ]; then
  note "Nothing was trained for this report: the quick mode leaves out Medusa, Clover-1, Clover-2," \
    "EAGLE-1 and the combinations of components."
elif cmake --build --preset release --target clover-torch 2>/dev/null; then
  if [ ! -f "$out/data/manifest.json" ]; then
    exclude=()
    for file in bench/questions/*.jsonl; do exclude+=(--exclude "$file"); done
    say "training data"
    "$clover" distill --self 1024 "${exclude[@]}" -n 128 --out "$out/data" --quiet
  fi
  note "Speculators of the chapter Training saw $train_tokens tokens each, which is little: they" \
    "show how the kinds compare after the same short training, not what each can reach."
  for preset in ours clover2 clover1 medusa eagle combo-{0,r,a,b,ra,rb,ab,rab}; do
    train "$preset" --preset "$preset"
  done
  train ours-8-heads --preset ours --heads 8
  for size in 1024 4096 16384; do train "ours-vocab-$size" --preset ours --draft-vocab "$size"; done
else
  note "Nothing was trained for this report: the program was built without libtorch" \
    "(scripts/setup.sh torch)."
fi
for run in "${runs[@]}"; do packages+=("$run/best"); done

# A package by the name that its results go by: its folder's, or its run's.
package_name() {
  case $1 in
    */best) basename "${1%/best}" ;;
    *) basename "$1" ;;
  esac
}

methods=none,ngram,recycle,ngram+recycle,default,default@2,default@4,default@8,default@16
result kernels bench kernels --rows "$rows" --repeats "$repeats"
for batch in "${batches[@]}"; do
  result "decode-$batch" bench decode --methods "$methods" --batch "$batch" --repeats "$repeats" \
    -n "$tokens" "${questions[@]}"
done
for batch in "${batches[0]}" "${batches[-1]}"; do
  result "decode-$batch-sampled" bench decode --methods none,ngram+recycle,default,default@8 \
    --batch "$batch" --repeats "$repeats" -n "$tokens" --temp 1 --seed 1 "${questions[@]}"
done
for speculator in ngram recycle ngram+recycle; do
  result "eval-$speculator" eval -s "$speculator" --nodes "$nodes" -n "$tokens" "${questions[@]}"
done
result eval-default eval --nodes "$nodes" --depths "$depths" -n "$tokens" "${questions[@]}"
for package in "${packages[@]}"; do
  name=$(package_name "$package")
  result "eval-$name" eval -s "$package" --nodes "$nodes" --depths "$depths" -n "$tokens" \
    "${questions[@]}"
  for batch in "${batches[@]}"; do
    result "decode-$batch-$name" bench decode --batch "$batch" --repeats "$repeats" -n "$tokens" \
      --methods "none,$package,$package@4,$package@fixed25,$package+ngram+recycle" \
      "${questions[@]}"
  done
done

# A comparison with other programs, or the server under load.
compare() {  # NAME SCRIPT ARGUMENT...
  local name=$1 script=$2
  shift 2
  if [ -s "$out/$name.json" ]; then
    say "$name: kept"
    return
  fi
  say "$name"
  "$script" "$@" --repeats "$repeats" --tokens "$tokens" --out "$out" >"$out/$name.txt"
}
if [ "$mode" = full ]; then
  compare llama_cpp bench/peers/compare_llama.sh
  compare peers bench/peers/compare_peers.sh
  compare serving bench/serving/serve.sh
else
  compare serving bench/serving/serve.sh --parts closed stall --share 0.25 --clients 1 8
  note "Other engines were not measured: the quick mode leaves them out, as they have to be built" \
    "first."
fi
"$clover" report "$out" "${runs[@]}" "${notes[@]}" --out "$out"
say "done"
