#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/checkpoint/ with the reference writers (pip install gguf safetensors numpy).

all_types.gguf: one tensor of every supported type and one key of every kind; all_types.json: what
the `gguf` package reads back from it. folder/: a small Hugging Face folder in two shards.
"""
import hashlib
import json
import pathlib
import sys

import gguf
import numpy as np
from safetensors.numpy import save_file

TYPES = ["F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
         "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL"]


def write_gguf(path: pathlib.Path) -> None:
    rng = np.random.default_rng(7)
    writer = gguf.GGUFWriter(path, "llama")
    kind = gguf.GGUFValueType
    writer.add_uint8("t.u8", 200)
    writer.add_int8("t.i8", -100)
    writer.add_uint16("t.u16", 60000)
    writer.add_int16("t.i16", -30000)
    writer.add_uint32("t.u32", 4_000_000_000)
    writer.add_int32("t.i32", -2_000_000_000)
    writer.add_uint64("t.u64", 2**64 - 1)
    writer.add_int64("t.i64", -(2**63))
    writer.add_float32("t.f32", 0.1)
    writer.add_float64("t.f64", 0.1)
    writer.add_bool("t.yes", True)
    writer.add_string("t.text", "naïve ▁Ġ 日本")
    writer.add_array("t.ints", [-1, 2, 3])
    writer.add_array("t.floats", [0.5, -1.25])
    writer.add_array("t.bools", [True, False, True])
    writer.add_array("t.strings", ["", "a", "▁b"])
    writer.add_key_value("t.bytes", bytes(range(5)), kind.ARRAY, sub_type=kind.UINT8)
    for index, name in enumerate(TYPES):
        qtype = gguf.GGMLQuantizationType[name]
        _, size = gguf.GGML_QUANT_SIZES[qtype]
        rows = 2 + index % 3
        data = rng.integers(0, 256, (rows, 2 * size), dtype=np.uint8)
        writer.add_tensor(f"w.{name}", data, raw_dtype=qtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def describe_gguf(path: pathlib.Path) -> dict:
    reader = gguf.GGUFReader(path)
    tensors = [{"name": t.name, "type": t.tensor_type.name, "shape": [int(d) for d in t.shape[::-1]],
                "sha256": hashlib.sha256(t.data.tobytes()).hexdigest()} for t in reader.tensors]
    keys = [name for name in reader.fields if not name.startswith("GGUF.")]
    return {"keys": keys, "tensors": tensors}


def write_folder(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(8)
    first = {"a.weight": rng.normal(size=(4, 6)).astype(np.float16),
             "a.bias": rng.normal(size=(3,)).astype(np.float32),
             "scalar": np.array(2.5, np.float32), "empty": np.zeros((0, 4), np.float32)}
    second = {"b.weight": rng.integers(-5, 5, (2, 3)).astype(np.int64),
              "mask": np.array([True, False])}
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    weight_map = {}
    for name, tensors in zip(names, [first, second]):
        save_file(tensors, folder / name, metadata={"format": "np"})
        weight_map.update({tensor: name for tensor in tensors})
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "hidden_size": 6}))


def main() -> None:
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/checkpoint")
    out.mkdir(parents=True, exist_ok=True)
    write_gguf(out / "all_types.gguf")
    (out / "all_types.json").write_text(json.dumps(describe_gguf(out / "all_types.gguf"), indent=1))
    write_folder(out / "folder")


if __name__ == "__main__":
    main()
