#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures the server as docs/results/serving.md shows it.
set -euo pipefail
shopt -s inherit_errexit
root=$(cd "$(dirname "$0")/.." && pwd)

usage() {
  cat <<'TEXT'
usage: bench/serve.sh PART [QUESTIONS]
Starts a server of its own on port 8199 and writes results/serve-PART.json.
  few     1, 4 and 8 clients, without and with speculation, interleaved
  many    16, 32 and 64 clients
  stall   the longest gap in running streams while a prompt of 4,000 tokens arrives
  peer    8 and 32 clients on llama.cpp's server (llama-cpp-python[server], one request at a time)
QUESTIONS: JSON lines as `clover bench serve` takes them (default: bench/questions/chat.jsonl).
TEXT
}

part=${1:-}
questions=${2:-$root/bench/questions/chat.jsonl}
clover=$root/build/clover
model=$root/models/SmolLM2-135M-Instruct.Q4_1.gguf
url=http://127.0.0.1:8199
out=$root/results
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null' EXIT
mkdir -p "$out"

wait_for() {  # PATH
  for _ in $(seq 600); do
    if curl -sf "$url$1" >/dev/null; then return; fi
    kill -0 "$server" || exit 1
    sleep 0.1
  done
  echo "serve.sh: the server did not start" >&2
  exit 1
}

start_clover() {
  # Every run reads its prompts: the prefix cache would know them from the run before.
  "$clover" serve -m "$model" --port 8199 --parallel 64 --no-prefix-cache --quiet "$@" &
  server=$!
  wait_for /health
}

load() {  # NAME CLIENTS REQUESTS REPEATS [OPTION...]
  local name=$1 clients=$2 requests=$3 repeats=$4
  shift 4
  "$clover" bench serve --url "$url/v1" --questions "$questions" --clients "$clients" \
    --requests "$requests" --repeats "$repeats" -n 128 --json "$out/serve-$name.json" "$@"
}

case $part in
  few)
    start_clover
    load few-1 1 30 3 --speculation off,auto
    load few-8 4,8 60 3 --speculation off,auto
    ;;
  many)
    start_clover
    load many-16 16,32 96 3 --speculation off,auto
    load many-64 64 160 3 --speculation off,auto
    ;;
  stall)
    start_clover
    python3 "$root/bench/serve_stall.py" "$url" "$out/serve-stall.json"
    ;;
  peer)
    "$root/.cache/peers-venv/bin/python" -m llama_cpp.server --model "$model" --n_ctx 4096 \
      --n_threads "$(nproc)" --n_threads_batch "$(nproc)" --port 8199 --verbose false &
    server=$!
    wait_for /v1/models
    load peer 8,32 32 1
    ;;
  -h | --help) usage ;;
  *) usage >&2 && exit 2 ;;
esac
