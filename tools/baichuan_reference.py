#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Baichuan 1 and 2 in plain torch, as published: packed QKV; rotary positions at 7B, ALiBi at 13B;
rows of the language-model head scaled to unit length at 2. `transformers` has no such class."""

import math

import torch


class RmsNorm(torch.nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def alibi_slopes(heads):
    """2^(-8 i / n) for a power of two n; else n' = the power below, then every other one of 2n'."""

    def geometric(count):
        first = 2.0 ** (-8.0 / count)
        return [first ** (i + 1) for i in range(count)]

    below = 2 ** int(math.floor(math.log2(heads)))
    return geometric(below) + geometric(2 * below)[0::2][: heads - below]


def linear(inputs, outputs):
    return torch.nn.Linear(inputs, outputs, bias=False)


class BaichuanAttention(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.W_pack = linear(c["hidden_size"], 3 * c["hidden_size"])
        self.o_proj = linear(c["hidden_size"], c["hidden_size"])

    def forward(self, x, cos, sin):
        rows, width = x.shape
        heads = self.c["num_attention_heads"]
        size = width // heads
        q, k, v = (t.view(rows, heads, size).transpose(0, 1) for t in self.W_pack(x).chunk(3, -1))
        distance = torch.arange(rows)[None, :] - torch.arange(rows)[:, None]
        bias = torch.zeros(rows, rows).masked_fill(distance > 0, float("-inf"))
        if cos is None:
            bias = bias + torch.tensor(alibi_slopes(heads))[:, None, None] * distance
        else:
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        weights = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(size) + bias, -1)
        return self.o_proj((weights @ v).transpose(0, 1).reshape(rows, width))


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class BaichuanMlp(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = linear(c["hidden_size"], c["intermediate_size"])
        self.up_proj = linear(c["hidden_size"], c["intermediate_size"])
        self.down_proj = linear(c["intermediate_size"], c["hidden_size"])

    def forward(self, x):
        return self.down_proj(torch.nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class BaichuanLayer(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.self_attn = BaichuanAttention(c)
        self.mlp = BaichuanMlp(c)
        self.input_layernorm = RmsNorm(c["hidden_size"], c["rms_norm_eps"])
        self.post_attention_layernorm = RmsNorm(c["hidden_size"], c["rms_norm_eps"])

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Baichuan(torch.nn.Module):
    """Names its parameters as the published checkpoints do."""

    def __init__(self, c):
        super().__init__()
        self.c = c
        self.model = torch.nn.Module()
        self.model.embed_tokens = torch.nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.model.layers = torch.nn.ModuleList(
            BaichuanLayer(c) for _ in range(c["num_hidden_layers"])
        )
        self.model.norm = RmsNorm(c["hidden_size"], c["rms_norm_eps"])
        self.lm_head = linear(c["hidden_size"], c["vocab_size"])

    def angles(self, positions):
        size = self.c["hidden_size"] // self.c["num_attention_heads"]
        inverse = 1.0 / (10000.0 ** (torch.arange(0, size, 2, dtype=torch.float32) / size))
        angle = positions.float()[:, None] * inverse
        return angle.cos(), angle.sin()

    def run(self, ids):
        x = self.model.embed_tokens(ids)
        cos, sin = self.angles(torch.arange(len(ids))) if self.rope() else (None, None)
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        head = self.lm_head.weight
        if self.c.get("z_loss_weight") is not None:  # Baichuan 2
            head = torch.nn.functional.normalize(head)
        return x, self.model.norm(x) @ head.T

    def rope(self):
        return "max_position_embeddings" in self.c

    def rope_table(self, positions):
        return self.angles(positions) if self.rope() else None
