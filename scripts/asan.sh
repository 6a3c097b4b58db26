#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs test programs under the address and undefined-behaviour sanitizers: those named, or the rooms
# that read untrusted bytes and do the books.
set -euo pipefail
cd "$(dirname "$0")/.."

programs=("$@")
if [ ${#programs[@]} -eq 0 ]; then
  programs=(base_test tensor_test checkpoint_test kv_test sampling_test)
fi
cmake --preset asan -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
cmake --build --preset asan --target "${programs[@]}"
for program in "${programs[@]}"; do
  echo "--- $program"
  "build-asan/$program" --gtest_brief=1
done
