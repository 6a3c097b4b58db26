#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh machine to an answer: installs, builds, generates the same text without and with
# speculation, and shows both speeds.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly MODEL=models/SmolLM2-135M-Instruct.Q4_1.gguf
readonly QUESTION=${1:-"Why does bread rise? Explain it to a child in a few sentences."}

case "${1:-}" in
  -h | --help)
    echo "usage: scripts/demo.sh [QUESTION]"
    exit 0
    ;;
esac

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

./scripts/setup.sh build model
cmake --preset release -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
cmake --build --preset release --target clover

# Generates the answer and keeps the numbers: answer NAME [OPTION...]
answer() {
  local name=$1
  shift
  printf '\n=== %s\n' "$name"
  build/clover generate -m "$MODEL" --chat -n 160 -p "$QUESTION" --json "$results/$name.json" "$@"
  printf '\n'
}

answer plain -s none
answer clover

python3 - "$results" <<'PYTHON'
import json, pathlib, sys

runs = {path.stem: json.loads(path.read_text()) for path in pathlib.Path(sys.argv[1]).glob("*.json")}
plain = runs["plain"]
machine = plain["machine"]
print(f"\n{machine['cpu']}, {machine['isa']}, {machine['threads']} threads")
for name in sorted(runs, reverse=True):
    run = runs[name]
    times = run["timing_ms"]
    line = (f"{name:7} {run['usage']['completion_tokens']:4} tokens, "
            f"{run['tokens_per_second']:7.1f} tokens/s, first token after {times['ttft']:.0f} ms")
    if name != "plain":
        line += (f", {run['speculation']['tokens_per_step']:.2f} tokens per step, "
                 f"{run['tokens_per_second'] / plain['tokens_per_second']:.2f}x")
    print(line)
if "clover" in runs:
    same = runs["clover"]["token_ids"] == plain["token_ids"]
    print("the same text, token for token" if same else "THE TEXTS DIFFER")
    sys.exit(0 if same else 1)
PYTHON
