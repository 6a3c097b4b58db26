#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares Clover's speed with llama.cpp's on this machine. Installs llama.cpp first (install.sh).
#   compare_llama.sh [OPTION...]          speed; options of compare_llama.py
#   compare_llama.sh logits [OPTION...]   logits on the same text; options of compare_logits.py
#   compare_llama.sh formats [OPTION...]  both on other weight types; options of compare_formats.py
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)

tool=compare_llama.py targets=(clover)
if [ "${1:-}" = logits ] || [ "${1:-}" = formats ]; then
  tool=compare_$1.py targets+=(clover-logits)
  shift
fi
"$root/bench/peers/install.sh" llama.cpp
case " $* " in
  *" --help "* | *" -h "*) ;;
  *)
    "$root/bench/build.sh" "${targets[@]}"
    ;;
esac
peer=$root/.cache/peers/llama.cpp
export PYTHONPATH=$peer/source LLAMA_CPP_LIB_PATH=$peer/build/bin
exec "$peer/venv/bin/python" "$root/bench/peers/$tool" "$@"
