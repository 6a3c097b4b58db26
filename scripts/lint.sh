#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Static checks: clang-format and clang-tidy (version 14, as in Debian 12), and whether the scripts
# parse.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: scripts/lint.sh [format|tidy|scripts|all] [--fix]
  format    clang-format over src, tests, fuzz and bench; --fix rewrites the files
  tidy      clang-tidy over src; unchanged files that passed before are skipped
  scripts   every shell and Python script parses
TEXT
}

# Versions of these tools disagree with each other, so one is fixed.
tool() {  # NAME
  local candidate
  for candidate in "$1-14" "$1"; do
    if command -v "$candidate" >/dev/null && "$candidate" --version | grep -q 'version 14\.'; then
      echo "$candidate"
      return
    fi
  done
  echo "lint: $1 of version 14 is missing; scripts/setup.sh dev installs it" >&2
  return 1
}

sources() {  # FOLDER...
  local folder folders=()
  for folder in "$@"; do [ ! -d "$folder" ] || folders+=("$folder"); done
  find "${folders[@]}" -type f \( -name '*.h' -o -name '*.cc' \) | sort
}

check_format() {
  local clang_format mode=(--dry-run -Werror)
  clang_format=$(tool clang-format)
  [ "$fix" -eq 0 ] || mode=(-i)
  sources src tests fuzz bench | xargs -r "$clang_format" "${mode[@]}"
  echo "format: ok"
}

check_scripts() {
  local script
  for script in scripts/*.sh bench/*.sh bench/*/*.sh .ci/run; do
    [ ! -f "$script" ] || bash -n "$script"
  done
  find scripts bench tools tests -name '*.py' -print0 | xargs -0 -r python3 -c '
import sys
for path in sys.argv[1:]:
    compile(open(path, encoding="utf-8").read(), path, "exec")'
  echo "scripts: ok"
}

# One source file; remembers success under a key of everything that the result depends on.
tidy_file() {  # CLANG_TIDY SHARED_KEY FILE
  local stamp
  stamp=.cache/tidy/$({ echo "$2"; cat "$3"; } | sha256sum | cut -d' ' -f1)
  [ ! -f "$stamp" ] || return 0
  # The build's flags are g++'s; clang need not know them all.
  "$1" --quiet -p build --extra-arg=-Wno-unknown-warning-option "$3" 2> >(grep -vE 'warnings? generated|^Suppressed|^Use -header' >&2) ||
    return 1
  touch "$stamp"
}
export -f tidy_file

check_tidy() {
  local clang_tidy key
  clang_tidy=$(tool clang-tidy)
  [ -f build/compile_commands.json ] || cmake --preset release >/dev/null
  mkdir -p .cache/tidy
  key=$({
    cat .clang-tidy build/compile_commands.json
    sources src | grep '\.h$' | xargs cat
  } | sha256sum)
  # Files for libtorch are no part of a build without it.
  local files
  files=$(sources src | grep '\.cc$' | grep -v '_test\.cc$')
  grep -q /src/backend/torch/ build/compile_commands.json || files=$(grep -v /torch/ <<<"$files")
  echo "$files" |
    xargs -r -P "$(nproc)" -I{} bash -c 'tidy_file "$@"' tidy_file "$clang_tidy" "$key" {} ||
    { echo "tidy: failed" >&2 && return 1; }
  echo "tidy: ok"
}

what=all
fix=0
for argument in "$@"; do
  case $argument in
    format | tidy | scripts | all) what=$argument ;;
    --fix) fix=1 ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done
if [ "$what" = all ]; then
  check_format
  check_scripts
  check_tidy
else
  "check_$what"
fi
