#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The server and the default model, tested by a Python program with the client's packages.
# Usage: run.sh TEST CLOVER SOURCE_DIR [ARGUMENT...]
set -euo pipefail
test=$1 clover=$2
cd "$3"
python=.cache/client-venv/bin/python3
[ -x "$python" ] || { echo "run.sh: run scripts/setup.sh client first" >&2 && exit 1; }
exec "$python" "tests/serve/$test" "$clover" models/SmolLM2-135M-Instruct.Q4_1.gguf "${@:4}"
