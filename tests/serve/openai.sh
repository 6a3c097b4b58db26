#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The server and the default model against the `openai` package. Usage: openai.sh CLOVER SOURCE_DIR
set -euo pipefail
clover=$1
cd "$2"
python=.cache/client-venv/bin/python3
[ -x "$python" ] || { echo "openai.sh: run scripts/setup.sh client first" >&2 && exit 1; }
exec "$python" tests/serve/openai_test.py "$clover" models/SmolLM2-135M-Instruct.Q4_1.gguf
