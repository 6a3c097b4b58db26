#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tiny seeded models of tests/data/tiny/ and what a reference computes with them.

Every model is random, small and checked in, so that the tests need neither Python nor a network.
The reference is `transformers` where it knows the architecture; Baichuan is the short module in
baichuan_reference.py.

    pip install torch transformers safetensors gguf && python3 tools/make_tiny_models.py

NAME/           a Hugging Face folder (config.json, model.safetensors in BF16)
NAME.gguf       a GGUF file
NAME.expected   little-endian: int32 magic, T, D, V, N, P, half; int32 tokens[T], rows[N],
                positions[P]; float32 hidden[N][D] before the final norm, logits[N][V],
                cos[P][half], sin[P][half]
"""

import argparse
import json
import math
import pathlib
import struct

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import save_file

from baichuan_reference import Baichuan

MAGIC = 0x31584C43
ROPE_POSITIONS = [0, 1, 10, 8000, 30000]
VOCAB = 96


# --- transformers -------------------------------------------------------------------------------


class Transformer:
    """A causal model of `transformers`, built from the very config.json that is checked in."""

    def __init__(self, config_json):
        architecture = config_json["architectures"][0]
        model_class = getattr(transformers, architecture)
        # from_dict edits nested dictionaries of its argument, so it gets a copy.
        config = model_class.config_class.from_dict(json.loads(json.dumps(config_json)))
        config._attn_implementation = "eager"
        self.module = model_class(config).float().eval()

    def named_parameters(self):
        return self.module.named_parameters()

    def run(self, ids):
        seen = []
        hook = self.module.model.norm.register_forward_pre_hook(lambda m, a: seen.append(a[0]))
        logits = self.module(ids[None]).logits[0]
        hook.remove()
        return seen[0][0], logits

    def rope_table(self, positions):
        cos, sin = self.module.model.rotary_emb(torch.zeros(1), positions[None])
        half = cos.shape[-1] // 2
        return cos[0, :, :half], sin[0, :, :half]


def make_reference(config_json):
    if config_json["model_type"] == "baichuan":
        return Baichuan(config_json).eval()
    return Transformer(config_json)


# --- Weights and expectations ---------------------------------------------------------------------


def randomise(reference, seed):
    """Scales that keep activations near one and attention far from uniform; all values are BF16."""
    generator = torch.Generator().manual_seed(seed)
    gains = {"q_proj": 2.0, "k_proj": 2.0, "W_pack": 1.7, "lm_head": 2.0}
    for name, p in reference.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        if "norm" in name:
            value = 1.0 + 0.3 * noise
        elif name.endswith(".bias"):
            value = 0.5 * noise
        elif "embed_tokens" in name:
            value = noise
        else:
            gain = next((g for key, g in gains.items() if key in name), 1.0)
            value = noise * gain / math.sqrt(p.shape[1])
        p.data = value.to(torch.bfloat16).float()


def write_expected(path, reference, length, seed, vocab):
    generator = torch.Generator().manual_seed(seed + 1)
    ids = torch.randint(0, vocab, (length,), generator=generator)
    rows = sorted({r for r in (0, 1, 2, 7, 8, 15, 16, 33, 64, 100, 255, 400) if r < length}
                  | {length - 2, length - 1})
    positions = torch.tensor(ROPE_POSITIONS)
    with torch.no_grad():
        hidden, logits = reference.run(ids)
        table = reference.rope_table(positions)
    half = 0 if table is None else table[0].shape[1]
    count = 0 if table is None else len(positions)
    with open(path, "wb") as f:
        f.write(struct.pack("<7i", MAGIC, length, hidden.shape[1], vocab, len(rows), count, half))
        f.write(ids.numpy().astype("<i4").tobytes())
        f.write(np.array(rows, "<i4").tobytes())
        f.write(positions[:count].numpy().astype("<i4").tobytes())
        for values in (hidden[rows], logits[rows], *(table or ())):
            f.write(values.contiguous().numpy().astype("<f4").tobytes())


# --- Hugging Face folders -------------------------------------------------------------------------


def config(architecture, model_type, **values):
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "hidden_act": "silu",
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "vocab_size": VOCAB,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    } | values


def baichuan(architecture, **values):
    base = config(architecture, "baichuan", rms_norm_eps=1e-6, **values)
    del base["num_key_value_heads"]
    if values.get("model_max_length"):
        del base["max_position_embeddings"]
    return base


def hf_models():
    """Name → (config.json, tokens). Old and new spellings of RoPE settings both occur."""
    llama = ("LlamaForCausalLM", "llama")
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 256}
    return {
        "llama2": (config(*llama), 600),
        "llama3": (config(*llama, num_key_value_heads=2, tie_word_embeddings=True,
                          rope_theta=500000.0, rope_scaling=llama3), 600),
        "llama_linear": (config(*llama, num_key_value_heads=2,
                                rope_scaling={"type": "linear", "factor": 4.0}), 600),
        "llama_yarn": (config(*llama, num_key_value_heads=2,
                              rope_parameters={"rope_type": "yarn", "factor": 8.0,
                                               "rope_theta": 10000.0,
                                               "original_max_position_embeddings": 128}), 600),
        "llama_head80": (config(*llama, num_attention_heads=2, num_key_value_heads=1,
                                head_dim=80, intermediate_size=64, rope_scaling=None), 80),
        "llama_head96": (config(*llama, num_attention_heads=2, num_key_value_heads=1,
                                head_dim=96, intermediate_size=32), 80),
        "llama_head256": (config(*llama, num_attention_heads=1, num_key_value_heads=1,
                                 head_dim=256, intermediate_size=64, num_hidden_layers=1), 80),
        "mistral": (config("MistralForCausalLM", "mistral", num_key_value_heads=1,
                           sliding_window=8), 120),
        "qwen2": (config("Qwen2ForCausalLM", "qwen2", num_key_value_heads=2, rope_theta=1e6,
                         tie_word_embeddings=True, rms_norm_eps=1e-6, sliding_window=16,
                         use_sliding_window=False, max_window_layers=2), 120),
        "qwen3": (config("Qwen3ForCausalLM", "qwen3", num_attention_heads=3,
                         num_key_value_heads=1, head_dim=32, rms_norm_eps=1e-6,
                         rope_parameters={"rope_type": "default", "rope_theta": 1e6}), 120),
        "baichuan_7b": (baichuan("BaiChuanForCausalLM"), 120),
        "baichuan2_7b": (baichuan("BaichuanForCausalLM", z_loss_weight=0), 120),
        "baichuan_13b": (baichuan("BaichuanForCausalLM", num_attention_heads=5, hidden_size=80,
                                  model_max_length=4096, intermediate_size=64), 120),
        "baichuan2_13b": (baichuan("BaichuanForCausalLM", num_attention_heads=6, hidden_size=96,
                                   model_max_length=4096, z_loss_weight=0,
                                   intermediate_size=64, num_hidden_layers=1), 120),
    }


def write_hf(out, name, config_json, length, seed):
    reference = make_reference(config_json)
    randomise(reference, seed)
    folder = out / name
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_json, indent=2) + "\n")
    tied = config_json["tie_word_embeddings"]
    tensors = {n: p.data.to(torch.bfloat16).contiguous() for n, p in reference.named_parameters()
               if not (tied and n == "lm_head.weight")}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    write_expected(out / f"{name}.expected", reference, length, seed, config_json["vocab_size"])


# --- GGUF files -----------------------------------------------------------------------------------

Q = gguf.GGMLQuantizationType


def permute(weight, heads):
    """Rows of q and k in the order of RoPE over adjacent pairs, as llama and baichuan files store."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def unpermute(weight, heads):
    return weight.reshape(heads, -1, 2, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def random_k_blocks(kind, rows, cols, rng):
    """Random valid blocks of a K-quant (the gguf package can only decode them)."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (rows, cols // block, size), np.uint8)
    # Scales that give elements of about 1/sqrt(cols).
    scale = 1.0 / math.sqrt(cols)
    if kind == Q.Q4_K:  # d * 6-bit scale * nibble - dmin * 6-bit minimum
        d = np.full((rows, cols // block, 1), scale / (32 * 4.6), np.float16)
        dmin = np.full_like(d, scale / (32 * 4.6) * 7.5)
        raw[..., 0:2] = d.view(np.uint8)
        raw[..., 2:4] = dmin.view(np.uint8)
    elif kind == Q.Q6_K:  # d * int8 scale * (6-bit code - 32), d in the last two bytes
        d = np.full((rows, cols // block, 1), scale / (64 * 18), np.float16)
        raw[..., size - 2 :] = d.view(np.uint8)
    else:
        raise ValueError(kind)
    return raw.reshape(rows, -1)


def store(writer, name, values, kind, rng):
    """Adds a tensor of the given type and returns the values that a reader will see."""
    if kind in (Q.Q4_K, Q.Q6_K):
        data = random_k_blocks(kind, *values.shape, rng)
    else:
        data = gguf.quants.quantize(values, kind)
    writer.add_tensor(name, data, raw_dtype=kind)
    return gguf.quants.dequantize(data, kind).astype(np.float32)


LAYER_NAMES = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
OUTER_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm",
               "lm_head": "output"}


def gguf_name(name):
    stem, kind = name.rsplit(".", 1)
    if stem in OUTER_NAMES:
        return f"{OUTER_NAMES[stem]}.{kind}"
    layer, inner = stem.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{LAYER_NAMES[inner]}.{kind}"


def write_metadata(writer, c, keys):
    size = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    writer.add_name("tiny " + c["model_type"])
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_embedding_length(c["hidden_size"])
    writer.add_block_count(c["num_hidden_layers"])
    writer.add_feed_forward_length(c["intermediate_size"])
    writer.add_head_count(c["num_attention_heads"])
    writer.add_head_count_kv(c.get("num_key_value_heads") or c["num_attention_heads"])
    writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    writer.add_key_length(size)
    writer.add_value_length(size)
    writer.add_rope_dimension_count(size)
    theta = c.get("rope_theta") or (c.get("rope_parameters") or {}).get("rope_theta")
    if theta:
        writer.add_rope_freq_base(theta)
    for key, value in keys.items():
        add = writer.add_float32 if isinstance(value, float) else (
            writer.add_string if isinstance(value, str) else writer.add_uint32)
        add(f"{writer.arch}.{key}", value)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([f"<{i}>" for i in range(c["vocab_size"])])


def llama3_factors(c):
    """How much llama3 scaling slows each frequency: the rope_freqs.weight tensor."""
    scaling = c["rope_scaling"]
    size = c["hidden_size"] // c["num_attention_heads"]
    original, factor = scaling["original_max_position_embeddings"], scaling["factor"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    values = []
    for i in range(0, size, 2):
        wavelength = 2 * math.pi * c["rope_theta"] ** (i / size)
        smooth = min(max((original / wavelength - low) / (high - low), 0.0), 1.0)
        values.append(1.0 / ((1.0 - smooth) / factor + smooth))
    return np.array(values, np.float32)


def write_gguf(out, name, config_json, length, seed, kind_of, keys):
    arch = config_json["model_type"]
    reference = make_reference(config_json)
    randomise(reference, seed)
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(out / f"{name}.gguf", arch)
    write_metadata(writer, config_json, keys)
    heads = {"attn_q": config_json["num_attention_heads"],
             "attn_k": config_json.get("num_key_value_heads")
             or config_json["num_attention_heads"]}
    permuted = arch in ("llama", "baichuan")
    for original, p in reference.named_parameters():
        if original == "lm_head.weight" and config_json["tie_word_embeddings"]:
            continue
        parts = [(gguf_name(original), p.data)] if "W_pack" not in original else [
            (original.replace("model.layers.", "blk.").replace("self_attn.W_pack", f"attn_{x}"), t)
            for x, t in zip("qkv", p.data.chunk(3))]
        seen = []
        for target, tensor in parts:
            values = tensor.numpy()
            turned = heads.get(target.split(".")[2]) if target.count(".") == 3 else None
            if permuted and turned:
                values = permute(values, turned)
            kind = kind_of(target) if values.ndim == 2 else Q.F32
            values = store(writer, target, np.ascontiguousarray(values), kind, rng)
            seen.append(unpermute(values, turned) if permuted and turned else values)
        p.data = torch.from_numpy(np.concatenate(seen).reshape(p.shape).copy())
    if name == "gguf_llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(config_json))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    write_expected(out / f"{name}.expected", reference, length, seed, config_json["vocab_size"])


def gguf_models():
    """Name → (config, tokens, element type by tensor name, further metadata keys)."""
    llama = ("LlamaForCausalLM", "llama")
    models = hf_models()
    yarn = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e6,
            "original_max_position_embeddings": 64}
    yarn_keys = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                 "rope.scaling.original_context_length": 64}
    big = config(*llama, hidden_size=256, intermediate_size=256, num_hidden_layers=1,
                 num_key_value_heads=1, vocab_size=64)

    def k_mix(name):  # as Q4_K_M files mix them: q, k and v differ in type
        wide = ("ffn_down", "attn_v.")
        return Q.Q6_K if name == "output.weight" or any(w in name for w in wide) else Q.Q4_K

    return {
        "gguf_llama3": (models["llama3"][0], 600, lambda n: Q.F16, {}),
        "gguf_linear": (models["llama_linear"][0], 120, lambda n: Q.BF16,
                        {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}),
        "gguf_qwen2": (config("Qwen2ForCausalLM", "qwen2", num_key_value_heads=2,
                              rms_norm_eps=1e-6, rope_parameters=yarn), 300,
                       lambda n: Q.F16, yarn_keys),
        "gguf_baichuan": (models["baichuan_7b"][0], 60, lambda n: Q.F16, {}),
        "gguf_llama_q8_0": (models["llama2"][0], 60, lambda n: Q.Q8_0, {}),
        "gguf_qwen3_q4_0": (models["qwen3"][0], 60, lambda n: Q.Q4_0, {}),
        "gguf_llama_q4_1": (models["llama3"][0] | {"rope_scaling": None}, 60,
                            lambda n: Q.Q4_1, {}),
        "gguf_llama_q4_k": (big, 60, k_mix, {}),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "tiny"
    parser.add_argument("--out", type=pathlib.Path, default=default)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for seed, (name, (config_json, length)) in enumerate(hf_models().items()):
        write_hf(out, name, config_json, length, 1000 + 10 * seed)
    for seed, (name, (config_json, length, kind_of, keys)) in enumerate(gguf_models().items()):
        write_gguf(out, name, config_json, length, 2000 + 10 * seed, kind_of, keys)


if __name__ == "__main__":
    main()
