#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the programs that Clover is compared with, each into a folder of its own under .cache/.
set -euo pipefail
shopt -s inherit_errexit
root=$(cd "$(dirname "$0")/../.." && pwd)

usage() {
  cat <<'TEXT'
usage: bench/peers/install.sh PEER...
Installs what is missing; nothing if all is there.
  llama.cpp  library, Python interface and llama-server, from the source that the PyPI package
             llama-cpp-python carries, built for this machine (ten minutes on two cores)
  openvino   the PyPI package openvino-genai
TEXT
}

readonly LLAMA_VERSION=0.3.36
readonly LLAMA_SHA256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
readonly LLAMA=$root/.cache/peers/llama.cpp
readonly OPENVINO_VERSION=2026.4.1.0
readonly OPENVINO=$root/.cache/peers/openvino

pip_in() {  # VENV ARGUMENT...
  local venv=$1
  shift
  "$venv/bin/pip" --disable-pip-version-check --quiet "$@"
}

install_llama() {
  if [ "$(cat "$LLAMA/version" 2>/dev/null)" = "$LLAMA_VERSION" ]; then return; fi
  "$root/scripts/setup.sh" build
  echo "building llama.cpp (llama-cpp-python $LLAMA_VERSION) in $LLAMA" >&2
  rm -rf "$LLAMA"
  mkdir -p "$LLAMA"
  python3 -m venv "$LLAMA/venv"
  pip_in "$LLAMA/venv" install numpy typing_extensions diskcache jinja2
  pip_in "$LLAMA/venv" download --no-deps --no-binary llama-cpp-python --dest "$LLAMA" \
    "llama-cpp-python==$LLAMA_VERSION"
  local archive=$LLAMA/llama_cpp_python-$LLAMA_VERSION.tar.gz
  echo "$LLAMA_SHA256  $archive" | sha256sum --check --quiet
  tar xzf "$archive" -C "$LLAMA"
  mv "${archive%.tar.gz}" "$LLAMA/source"
  rm "$archive"
  cmake -S "$LLAMA/source/vendor/llama.cpp" -B "$LLAMA/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
    -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF >"$LLAMA/build.log"
  cmake --build "$LLAMA/build" --target llama-server >>"$LLAMA/build.log"
  echo "$LLAMA_VERSION" >"$LLAMA/version"
}

install_openvino() {
  if [ "$(cat "$OPENVINO/version" 2>/dev/null)" = "$OPENVINO_VERSION" ]; then return; fi
  echo "installing openvino-genai $OPENVINO_VERSION in $OPENVINO" >&2
  rm -rf "$OPENVINO"
  python3 -m venv "$OPENVINO/venv"
  pip_in "$OPENVINO/venv" install "openvino-genai==$OPENVINO_VERSION"
  echo "$OPENVINO_VERSION" >"$OPENVINO/version"
}

[ $# -gt 0 ] || { usage >&2 && exit 2; }
for peer in "$@"; do
  case $peer in
    llama.cpp) install_llama ;;
    openvino) install_openvino ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done
