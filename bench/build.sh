#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds what a comparison measures, and fetches the default model.  bench/build.sh TARGET...
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
"$root/scripts/setup.sh" build model
cmake --preset release -S "$root" -DCMAKE_MESSAGE_LOG_LEVEL=WARNING >/dev/null
cmake --build "$root/build" --target "$@" >/dev/null
