#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs, builds and tests.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: scripts/test.sh [all|fast]
  all    static checks, every test, sanitizers (default; most of an hour on two cores)
  fast   the tests that need no model, in the release build (under a minute once built)
TEXT
}

mode=${1:-all}
case $mode in
  all | fast) ;;
  -h | --help) usage && exit 0 ;;
  *) usage >&2 && exit 2 ;;
esac

jobs=$(nproc)
step() { printf '\n=== [%dm%02ds] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

configure_and_build() {  # PRESET [TARGET...]
  local preset=$1
  shift
  cmake --preset "$preset" -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
  cmake --build --preset "$preset" ${1:+--target "$@"}
}

if [ "$mode" = fast ]; then
  ./scripts/setup.sh build
  configure_and_build release
  exec ctest --test-dir build -L fast -j "$jobs" --output-on-failure
fi

step "setup"
./scripts/setup.sh build dev model torch client

step "format and scripts"
./scripts/lint.sh format
./scripts/lint.sh scripts

step "release build"
configure_and_build release

step "fast tests"
ctest --test-dir build -L fast -j "$jobs" --output-on-failure --quiet ||
  ctest --test-dir build -L fast --rerun-failed --output-on-failure

step "clang-tidy"
./scripts/lint.sh tidy

step "address and undefined-behaviour sanitizers"
./scripts/asan.sh

step "thread sanitizer"
./scripts/tsan.sh

step "fuzzing: a minute for each reader of foreign data"
./scripts/fuzz.sh 600

step "older processors, emulated"
./scripts/emulate.sh

step "acceptance on fixed prompts"
./build/model_file_test --gtest_brief=1 --gtest_filter='AcceptanceGate.*'

step "all tests"
ctest --test-dir build -E '^AcceptanceGate' -j "$jobs" --output-on-failure
