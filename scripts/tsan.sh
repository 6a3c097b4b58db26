#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of the rooms that use threads under the thread sanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."

# Not the server's: Asio synchronises with fences, which GCC's sanitizer does not understand.
readonly PROGRAMS=(base_test engine_test)

# GCC 12's sanitizer cannot map its shadow memory where the kernel randomises many address bits.
fixed=()
if setarch -R true 2>/dev/null; then
  fixed=(setarch -R)
elif [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 32)" -gt 28 ]; then
  echo "tsan: NOT RUN: this system neither lets a program switch off address randomisation nor" \
    "keeps it small enough (vm.mmap_rnd_bits 28)"
  exit 0
fi

cmake --preset tsan -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
known=$(ninja -C build-tsan -t targets all)
programs=()
for program in "${PROGRAMS[@]}"; do
  if grep -q "^$program:" <<<"$known"; then programs+=("$program"); fi
done
[ ${#programs[@]} -gt 0 ] || { echo "tsan: no test program is known" >&2 && exit 1; }
"${fixed[@]}" cmake --build --preset tsan --target "${programs[@]}"
for program in "${programs[@]}"; do
  echo "--- $program"
  filter='*'
  # Of the base room only the pool has threads; elsewhere the sanitizer only costs time.
  [ "$program" != base_test ] || filter='*Pool*'
  TSAN_OPTIONS=halt_on_error=1 "${fixed[@]}" "build-tsan/$program" --gtest_brief=1 \
    --gtest_filter="$filter"
done
