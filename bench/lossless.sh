#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The grid: the same ids and log-probabilities, bit for bit, with every speculator and tree as
# without, at several temperatures, processors, batch sizes and thread counts. Writes a table in
# Markdown. 36 settings times 40 methods times 200 questions are days of one machine, so by default
# each setting takes its own questions in turn, and each speculator one of the trees in turn: every
# speculator meets every setting, every tree every value of a setting, and every question some setting.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: bench/lossless.sh QUESTIONS [COUNT] [EACH] [TOKENS] [OUT]
  QUESTIONS  JSON lines as bench decode reads them
  COUNT      how many of them, spread over the file (default 200)
  EACH       how many of these a setting takes, with a tree for each speculator in turn (default 8);
             "all": all of them, with every tree
  TOKENS     tokens of an answer (default 32)
  OUT        where the table goes (default docs/results/lossless.md)
TEXT
}
[ $# -ge 1 ] || { usage >&2 && exit 2; }
case $1 in -h | --help) usage && exit 0 ;; esac
questions=$1 count=${2:-200} each=${3:-8} tokens=${4:-32} out=${5:-docs/results/lossless.md}
every_tree=
[ "$each" != all ] || { each=$count every_tree=yes; }
clover=build/clover
[ -x "$clover" ] || { echo "lossless: build first (scripts/demo.sh)" >&2 && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

lines=$(wc -l <"$questions")
awk -v n="$count" -v all="$lines" 'int((NR - 1) * n / all) != int(NR * n / all)' "$questions" \
  >"$work/all"
count=$(wc -l <"$work/all")

# Packages without training: their drafts are wrong mostly, which must not matter.
speculators=(ngram recycle ngram+recycle wrong)
for type in clover2 clover1 medusa eagle; do
  "$clover" speculator init --type "$type" --seed 1 --out "$work/$type" >/dev/null
  speculators+=("$work/$type")
done
# The model as its own drafter is right at every greedy draft.
speculators+=("models/SmolLM2-135M-Instruct.Q4_1.gguf" "$work/clover2+ngram+recycle")
readonly TREES=(1 4 fixed25 auto)

# Prints the methods of a setting: none, and every speculator with all trees or with one of them.
methods_of() {  # NUMBER OF THE SETTING
  # One more after every fourth setting, or a speculator's trees would each keep to one thread count.
  local number=$(($1 + $1 / 4)) methods=none speculator tree
  for speculator in "${speculators[@]}"; do
    if [ -n "$every_tree" ]; then
      for tree in "${TREES[@]}"; do methods+=",$speculator@$tree"; done
    else
      methods+=",$speculator@${TREES[number % ${#TREES[@]}]}"
      number=$((number + 1))
    fi
  done
  echo "$methods"
}

penalties=(--repeat-penalty 1.2 --presence-penalty 0.3 --frequency-penalty 0.2 --logit-bias "28=2")
failed=0
taken=0  # questions that the settings so far took
setting=0
{
  echo "# Lossless: the grid"
  echo
  echo "${#speculators[@]} speculators with trees of 1, 4 and 25 nodes and \`auto\` against \`none\`: ids and"
  echo "log-probabilities of $tokens tokens, bit for bit. Of $count questions each setting takes $each, going on"
  echo "where the setting before it ended${every_tree:+, every speculator with every tree}; a cell of the last column other than 0 is a fault."
  echo "Made by bench/lossless.sh, commit $(git describe --always --dirty 2>/dev/null || echo unknown)."
  echo
  echo "| temperature | processors | sequences | threads | answers compared | methods that differ |"
  echo "|---|---|---|---|---|---|"
} >"$work/table"
for batch in 1 8; do
  for temperature in 0 0.7 1; do
    for processors in none penalties top-p; do
      for threads in 1 2; do
        cat "$work/all" "$work/all" | sed -n "$((taken % count + 1)),$((taken % count + each))p" \
          >"$work/questions"
        taken=$((taken + each))
        options=(--temp "$temperature" --seed 7 -t "$threads")
        [ "$processors" != penalties ] || options+=("${penalties[@]}")
        [ "$processors" != top-p ] || options+=(--top-k 50 --top-p 0.95 --min-p 0.02)
        rm -f "$work/result.json"
        "$clover" bench decode --questions "$work/questions" --methods "$(methods_of $setting)" \
          --batch "$batch" --repeats 1 -n "$tokens" --logprobs --quiet --json "$work/result.json" "${options[@]}" \
          >"$work/text" || true
        read -r compared different < <(python3 - "$work/result.json" "$each" <<'PY'
import json, sys
rows = [r for r in json.load(open(sys.argv[1]))["results"] if r["category"] == "all"]
print((len(rows) - 1) * int(sys.argv[2]), sum(not r["same_text_as_none"] for r in rows))
PY
        )
        failed=$((failed + different))
        setting=$((setting + 1))
        echo "| $temperature | $processors | $batch | $threads | $compared | $different |" |
          tee -a "$work/table"
      done
    done
  done
done
mkdir -p "$(dirname "$out")"
cp "$work/table" "$out"
echo "$failed methods differ" >&2
[ "$failed" -eq 0 ]
