#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares Clover's speed with llama.cpp's on this machine. Installs llama.cpp from PyPI, built from
# source for the machine (about ten minutes on two cores, once).
#   compare_llama.sh [OPTION...]          speed; options of compare_llama.py
#   compare_llama.sh logits [OPTION...]   logits on the same text; options of compare_logits.py
#   compare_llama.sh formats [OPTION...]  both on other weight types; options of compare_formats.py
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
readonly VERSION=0.3.36
readonly VENV=$root/.cache/peers-venv

case " $* " in
  *" --help "* | *" -h "*) ;;
  *) "$root/scripts/setup.sh" build model ;;
esac
if [ "$("$VENV/bin/python" -c 'import llama_cpp, numpy; print(llama_cpp.__version__)' 2>/dev/null)" \
  != "$VERSION" ]; then
  echo "building llama.cpp (llama-cpp-python $VERSION) in .cache/peers-venv" >&2
  mkdir -p "$root/.cache"
  python3 -m venv --clear "$VENV"
  CMAKE_ARGS="-DGGML_NATIVE=ON -DCMAKE_BUILD_TYPE=Release -DLLAMA_BUILD_TOOLS=OFF \
-DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAVA_BUILD=OFF" \
    "$VENV/bin/pip" --disable-pip-version-check install --quiet --no-cache-dir \
    --no-binary llama-cpp-python "llama-cpp-python==$VERSION" numpy
fi
tool=compare_llama.py
if [ "${1:-}" = logits ] || [ "${1:-}" = formats ]; then
  tool=compare_$1.py
  case " $* " in
    *" --help "* | *" -h "*) ;;
    *)
      cmake --preset release -S "$root" -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
      cmake --build "$root/build" --target clover clover-logits
      ;;
  esac
  shift
fi
exec "$VENV/bin/python" "$root/bench/peers/$tool" "$@"
