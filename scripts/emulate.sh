#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the program on emulated older processors: the same binary has to start on any x86-64, pick
# the kernels that the processor has, and give the same text. Needs qemu-x86_64 (Debian: qemu-user).
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  -h | --help)
    echo "usage: scripts/emulate.sh [PROGRAM]   (default build/clover)"
    exit 0
    ;;
esac
program=${1:-build/clover}
[ -x "$program" ] || { echo "emulate: $program is not built" >&2 && exit 1; }
command -v qemu-x86_64 >/dev/null || { echo "emulate: qemu-x86_64 is missing" >&2 && exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source_dir=$PWD
# shellcheck source=tests/cli/tiny_model.sh
. tests/cli/tiny_model.sh
tiny_model "$work/model"

failed=0
# check CPU ISA: every verb runs; generate says that it used ISA.
check() {
  local cpu=$1 isa=$2 text
  on_cpu() { qemu-x86_64 -cpu "$cpu" "$program" "$@" 2>"$work/err"; }
  if on_cpu info -m "$work/model" >"$work/info" &&
    on_cpu tokenize -m "$work/model" -p abc >"$work/ids" &&
    text=$(on_cpu generate -m "$work/model" -t 1 --ignore-eos -p abc -n 8 --json "$work/r.json") &&
    grep -q "\"isa\": \"$isa\"" "$work/r.json"; then
    echo "$cpu: $isa, \"$text\""
    echo "$text" >>"$work/texts"
  else
    echo "emulate: failed on $cpu, where $isa was expected" >&2
    tail -n 5 "$work/err" >&2
    failed=1
  fi
}

check qemu64 reference  # the least that an x86-64 has
check Nehalem reference
check Haswell avx2
if [ "$(sort -u "$work/texts" | wc -l)" -ne 1 ]; then
  echo "emulate: the texts differ" >&2
  failed=1
fi
exit $failed
