#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs test programs under the address and undefined-behaviour sanitizers: those named, or those of
# all rooms but the backend's, whose many shapes take longest that way (its code runs in the tests of
# the model and of the engine as well).
set -euo pipefail
cd "$(dirname "$0")/.."

programs=("$@")
if [ ${#programs[@]} -eq 0 ]; then
  programs=(base_test plot_test tensor_test checkpoint_test tokenizer_test constraint_test kv_test sampling_test model_test
    speculation_test engine_test train_test serve_test measure_test)
fi
cmake --preset asan -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
cmake --build --preset asan --target "${programs[@]}"
for program in "${programs[@]}"; do
  echo "--- $program"
  "build-asan/$program" --gtest_brief=1
done
