#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares Clover with llama.cpp and OpenVINO GenAI, each plain and with its speculation. Installs
# them first (install.sh). Options of compare_peers.py.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
case " $* " in
  *" --help "* | *" -h "*) ;;
  *)
    "$root/bench/peers/install.sh" llama.cpp openvino
    "$root/bench/build.sh" clover
    ;;
esac
exec python3 "$root/bench/peers/compare_peers.py" "$@"
