#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzz targets and runs them one after the other under the address and
# undefined-behaviour sanitizers. Inputs that crash are kept in build-fuzz/crashes/.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  -h | --help)
    echo "usage: scripts/fuzz.sh [SECONDS] [TARGET...]   (seconds for all targets together)"
    exit 0
    ;;
esac
seconds=${1:-180}
[ $# -eq 0 ] || shift
case $seconds in
  '' | *[!0-9]*) echo "fuzz: \"$seconds\" is not a number of seconds" >&2 && exit 2 ;;
esac

if [ ! -f fuzz/CMakeLists.txt ]; then
  echo "fuzz: there are no fuzz targets"
  exit 0
fi
cmake --preset fuzz -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
cmake --build --preset fuzz --target fuzz_targets

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  mapfile -t targets < <(find build-fuzz -maxdepth 1 -type f -executable -name '*_fuzz' | sort)
  targets=("${targets[@]##*/}")
fi
[ ${#targets[@]} -gt 0 ] || { echo "fuzz: no fuzz target was built" >&2 && exit 1; }

each=$((seconds / ${#targets[@]}))
[ "$each" -le 60 ] || each=60
[ "$each" -gt 0 ] || each=1
mkdir -p build-fuzz/crashes

run_target() {  # TARGET: fails, with the end of its log, when it finds something
  local target=$1 program=build-fuzz/$1 log=build-fuzz/$1.log
  # New inputs go to the first folder; the checked-in seeds are only read.
  local corpus=(build-fuzz/corpus/"$target") seeds=fuzz/corpus/${target%_fuzz}
  mkdir -p "${corpus[0]}"
  [ ! -d "$seeds" ] || corpus+=("$seeds")
  if ! "$program" -max_total_time="$each" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
    -artifact_prefix=build-fuzz/crashes/"$target"- "${corpus[@]}" >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "fuzz: $target failed; its input is in build-fuzz/crashes/" >&2
    return 1
  fi
  echo "$target: $(grep '^Done' "$log")"
}

for target in "${targets[@]}"; do
  [ -x "build-fuzz/$target" ] || { echo "fuzz: there is no target \"$target\"" >&2 && exit 2; }
done
# As many at once as there are processors.
failed=0
running=0
for target in "${targets[@]}"; do
  if [ "$running" -ge "$(nproc)" ]; then
    wait -n || failed=1
    running=$((running - 1))
  fi
  run_target "$target" &
  running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
  wait -n || failed=1
  running=$((running - 1))
done
exit $failed
