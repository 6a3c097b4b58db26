# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Helpers of the command-line tests. Sourced with the program and the source folder as arguments;
# a test file calls `check` and friends and ends with `summary`.
set -uo pipefail
clover=$1
source_dir=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checks=0
failures=0

fail() {
  failures=$((failures + 1))
  echo "FAILED: $*" >&2
  sed 's/^/  stdout: /' "$work/out" | head -n 5 | cut -c -300 >&2
  sed 's/^/  stderr: /' "$work/err" | head -n 5 | cut -c -300 >&2
}

# run ARG...: runs the program on standard input; leaves $status, $work/out and $work/err.
run() {
  "$clover" "$@" >"$work/out" 2>"$work/err"
  status=$?
}

# expect STATUS ERROR_PATTERN ARG...: the exit status, and an extended regular expression for
# standard error ("" : standard error must be empty). Every failure is one line.
expect() {
  local want=$1 pattern=$2
  shift 2
  run "$@"
  checks=$((checks + 1))
  local name="${*:1:12}"
  name="clover ${name:0:200}"
  if [ "$status" -ne "$want" ]; then
    fail "$name: exit status $status, not $want"
  elif [ -z "$pattern" ] && [ -s "$work/err" ]; then
    fail "$name: something on standard error"
  elif [ -n "$pattern" ] && ! grep -Eq -- "$pattern" "$work/err"; then
    fail "$name: standard error does not match '$pattern'"
  elif [ "$want" -ne 0 ] && [ "$(wc -l <"$work/err")" -ne 1 ]; then
    fail "$name: the error is not one line"
  fi
}

# same WHAT A B: two texts are equal.
same() {
  checks=$((checks + 1))
  [ "$2" = "$3" ] || fail "$1: '${2:0:200}' is not '${3:0:200}'"
}

# differ WHAT A B
differ() {
  checks=$((checks + 1))
  [ "$2" != "$3" ] || fail "$1: both are '${2:0:200}'"
}

# has WHAT FILE PATTERN: a line matches the extended regular expression.
has() {
  checks=$((checks + 1))
  grep -Eq -- "$3" "$2" || fail "$1: no line of $(basename "$2") matches '$3'"
}

# shellcheck source=tests/cli/tiny_model.sh
. "$source_dir/tests/cli/tiny_model.sh"

summary() {
  rm -rf "$work"
  echo "$checks checks, $failures failed"
  [ "$failures" -eq 0 ] && [ "$checks" -gt 0 ]
  exit
}
