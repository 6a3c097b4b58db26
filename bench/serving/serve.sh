#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures the server under load; `clover report` makes a page of what it writes. Installs llama.cpp
# first (bench/peers/install.sh) unless --parts leaves it out. Options of load.py.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
case " $* " in
  *" --help "* | *" -h "*) ;;
  *)
    if [[ " $* " != *" --parts "* || " $* " == *" peer "* ]]; then
      "$root/bench/peers/install.sh" llama.cpp
    fi
    "$root/bench/build.sh" clover
    ;;
esac
exec python3 "$root/bench/serving/load.py" "$@"
