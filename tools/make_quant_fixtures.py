#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/tensor/*.bin from the `gguf` package (pip install gguf numpy).

dequantise_<TYPE>.bin: blocks of random bytes, then the float32 values they stand for. The first
blocks have ordinary scales, the rest are random throughout, so that infinities, NaN and subnormal
scales occur. quantise_<TYPE>.bin: float32 values, then the blocks they become.
"""
import pathlib
import sys

import gguf
import numpy as np

TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
         "BF16", "F16"]
# Where each block keeps its half-precision scales.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82],
          "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0],
          "BF16": [], "F16": []}


def dequantise_fixture(name: str, rng: np.random.Generator) -> bytes:
    qtype = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[qtype]
    count = 8 if elements == 256 else 24 if elements == 32 else 512
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for offset in HALVES[name]:
        scales = rng.normal(0, 0.02, (count * 3 // 4,)).astype(np.float16)
        blocks[: len(scales), offset : offset + 2] = scales.view(np.uint8).reshape(-1, 2)
    with np.errstate(all="ignore"):
        values = gguf.dequantize(blocks, qtype)
    return blocks.tobytes() + values.astype(np.float32).tobytes()


def quantise_fixture(name: str, rng: np.random.Generator) -> bytes:
    values = rng.normal(0, 1, (12, 32)).astype(np.float32)
    values *= np.logspace(-8, 3, 12, dtype=np.float32)[:, None]
    values[0] = 0
    values[1] = 0.25
    values[2, ::2] *= -1
    values[3] = np.abs(values[3])
    with np.errstate(all="ignore"):
        blocks = gguf.quantize(values, gguf.GGMLQuantizationType[name])
    return values.tobytes() + blocks.tobytes()


def main() -> None:
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/tensor")
    out.mkdir(parents=True, exist_ok=True)
    for index, name in enumerate(TYPES):
        fixture = dequantise_fixture(name, np.random.default_rng(index))
        (out / f"dequantise_{name}.bin").write_bytes(fixture)
    for index, name in enumerate(["Q4_0", "Q4_1", "Q8_0", "BF16", "F16"]):
        fixture = quantise_fixture(name, np.random.default_rng(100 + index))
        (out / f"quantise_{name}.bin").write_bytes(fixture)


if __name__ == "__main__":
    main()
