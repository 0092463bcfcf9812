# SPDX-License-Identifier: MIT
"""Logits of Llama models, in numpy, from the definitions; no code of weir's.

reference.py MODEL OUT TOKEN...   write the logits of each token, as F32

Reads GGUF by the package gguf, and the files of Hugging Face by itself.
Computes in double precision, with the weights as they are in the file. The
keys and values of earlier tokens are kept, so that later tokens may follow in
further calls.
"""
import glob
import json
import math
import os
import struct
import sys
from types import SimpleNamespace

import numpy


def softmax(x):
    e = numpy.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def rms_norm(x, eps):
    return x / numpy.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)


def silu(x):
    return x / (1 + numpy.exp(-x))


def llama3_factors(rope, wavelengths):
    """Divisors of the frequencies."""
    factor, context = rope.factor, rope.context
    s = (context / wavelengths - rope.low) / (rope.high - rope.low)
    between = 1 / ((1 - s) / factor + s)
    return numpy.where(
        wavelengths < context / rope.high, 1,
        numpy.where(wavelengths > context / rope.low, factor, between))


def yarn_weights(rope, size):
    """The share of each frequency that is interpolated."""
    def dim_of(turns):
        return (size * math.log(rope.context / (turns * 2 * math.pi)) /
                (2 * math.log(rope.base)))
    low = max(math.floor(dim_of(rope.beta_fast)), 0)
    high = min(math.ceil(dim_of(rope.beta_slow)), size - 1)
    pair = numpy.arange(size // 2)
    return numpy.clip((pair - low) / max(high - low, 0.001), 0, 1)


def frequencies(rope, size):
    """Radians for each position and pair, and the factor of the result."""
    f = rope.base ** (-numpy.arange(0, size, 2) / size)
    if rope.kind == "linear":
        return f / rope.factor, 1
    if rope.kind == "llama3":
        return f / llama3_factors(rope, 2 * math.pi / f), 1
    if rope.kind == "yarn":
        share = yarn_weights(rope, size)
        return (f / rope.factor * share + f * (1 - share),
                1 + 0.1 * math.log(rope.factor))
    assert rope.kind == "none", rope.kind
    return f, 1


def rotate(x, positions, model):
    """x [T, heads, D]"""
    turned = x.copy()
    size = 2 * len(model.frequency)
    if model.pairs == "neighbours":
        first, second = slice(0, size, 2), slice(1, size, 2)
    else:
        first, second = slice(0, size // 2), slice(size // 2, size)
    angle = positions[:, None, None] * model.frequency
    cos = numpy.cos(angle) * model.magnitude
    sin = numpy.sin(angle) * model.magnitude
    a, b = x[..., first], x[..., second]
    turned[..., first] = a * cos - b * sin
    turned[..., second] = a * sin + b * cos
    return turned


def attention(model, cache, w, x, positions):
    n = len(x)
    q = (x @ w("attn_q").T).reshape(n, model.heads, model.head)
    k = (x @ w("attn_k").T).reshape(n, model.kv_heads, model.head)
    v = (x @ w("attn_v").T).reshape(n, model.kv_heads, model.head)
    q, k = rotate(q, positions, model), rotate(k, positions, model)
    if cache:
        k = numpy.concatenate([cache["k"], k])
        v = numpy.concatenate([cache["v"], v])
    cache.update(k=k, v=v)
    hidden = numpy.arange(len(k)) > positions[:, None]
    out = numpy.empty_like(q)
    for h in range(model.heads):
        g = h // (model.heads // model.kv_heads)
        scores = q[:, h] @ k[:, g].T / math.sqrt(model.head)
        out[:, h] = softmax(numpy.where(hidden, -numpy.inf, scores)) @ v[:, g]
    return out.reshape(n, -1) @ w("attn_output").T


def feed_forward(w, x):
    return (silu(x @ w("ffn_gate").T) * (x @ w("ffn_up").T)) @ w("ffn_down").T


class Session:
    """A model with the tokens that it has read."""

    def __init__(self, model):
        self.model = model
        self.cache = [{} for _ in range(model.layers)]
        self.n = 0

    def logits(self, tokens):
        model = self.model
        positions = numpy.arange(self.n, self.n + len(tokens))
        x = model.weight("token_embd")[tokens]
        for i, cache in enumerate(self.cache):
            def w(name):
                return model.weight(f"blk.{i}.{name}")
            y = rms_norm(x, model.eps) * w("attn_norm")
            x = x + attention(model, cache, w, y, positions)
            y = rms_norm(x, model.eps) * w("ffn_norm")
            x = x + feed_forward(w, y)
        self.n += len(tokens)
        x = rms_norm(x, model.eps) * model.weight("output_norm")
        return x @ model.weight(model.output).T

    def greedy(self, tokens, n):
        """The @n tokens that follow, each the one of the greatest logit."""
        found = []
        for _ in range(n):
            tokens = [int(self.logits(tokens)[-1].argmax())]
            found += tokens
        return found


def set_rope(model, rope, size):
    model.frequency, model.magnitude = frequencies(rope, size)


# GGUF

def open_gguf(path):
    from gguf import GGUFReader, quants
    readers = [GGUFReader(file) for file in parts_of(path)]
    fields = readers[0].fields

    def value(key, default=None):
        field = fields.get(key)
        return default if field is None else field.contents()

    def of(key, default=None):
        return value("llama." + key, default)
    tensors = {t.name: t for r in readers for t in r.tensors}
    loaded = {}

    def weight(name):
        if name not in loaded:
            t = tensors[name + ".weight"]
            loaded[name] = quants.dequantize(
                t.data, t.tensor_type).astype(numpy.float64).reshape(
                    [int(n) for n in t.shape[::-1]])
        return loaded[name]
    heads = of("attention.head_count")
    head = of("attention.key_length", of("embedding_length") // heads)
    model = SimpleNamespace(
        layers=of("block_count"), heads=heads, head=head, weight=weight,
        kv_heads=of("attention.head_count_kv", heads),
        eps=of("attention.layer_norm_rms_epsilon"), pairs="neighbours",
        output="output" if "output.weight" in tensors else "token_embd")
    set_rope(model, SimpleNamespace(
        kind=of("rope.scaling.type", "none"),
        base=of("rope.freq_base", 10000.0),
        factor=of("rope.scaling.factor"), beta_fast=32, beta_slow=1,
        context=of("rope.scaling.original_context_length")),
        of("rope.dimension_count", head))
    if "rope_freqs.weight" in tensors:
        model.frequency = model.frequency / weight("rope_freqs")
    return model


def parts_of(path):
    """All files of a split model."""
    if "-00001-of-" not in path:
        return [path]
    return sorted(glob.glob(path.replace("-00001-of-", "-*-of-")))


# The layout of Hugging Face

HF_NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj",
            "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
            "attn_output": "self_attn.o_proj",
            "ffn_norm": "post_attention_layernorm",
            "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
            "ffn_down": "mlp.down_proj"}


def hf_name(name):
    """The name in safetensors of a tensor of GGUF."""
    if name.startswith("blk."):
        _, layer, rest = name.split(".")
        return f"model.layers.{layer}.{HF_NAMES[rest]}.weight"
    return {"token_embd": "model.embed_tokens.weight",
            "output_norm": "model.norm.weight",
            "output": "lm_head.weight"}[name]


def decode(data, dtype):
    if dtype == "BF16":
        wide = numpy.frombuffer(data, "<u2").astype("<u4") << 16
        return wide.view("<f4").astype(numpy.float64)
    return numpy.frombuffer(data, {"F32": "<f4", "F16": "<f2"}[dtype]).astype(
        numpy.float64)


def read_safetensors(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(n))
        data = f.read()
    header.pop("__metadata__", None)
    return {name: decode(data[slice(*e["data_offsets"])],
                         e["dtype"]).reshape(e["shape"])
            for name, e in header.items()}


def open_hf(folder):
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    tensors = {}
    for file in glob.glob(os.path.join(folder, "*.safetensors")):
        tensors.update(read_safetensors(file))
    heads = config["num_attention_heads"]
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    model = SimpleNamespace(
        layers=config["num_hidden_layers"], heads=heads,
        kv_heads=config.get("num_key_value_heads", heads),
        head=config.get("head_dim") or config["hidden_size"] // heads,
        eps=config["rms_norm_eps"], pairs="halves",
        weight=lambda name: tensors[hf_name(name)],
        output=("token_embd" if config.get("tie_word_embeddings")
                else "output"))
    set_rope(model, SimpleNamespace(
        kind=scaling.get("rope_type", scaling.get("type", "none")),
        base=config.get("rope_theta", scaling.get("rope_theta", 10000.0)),
        factor=scaling.get("factor"), low=scaling.get("low_freq_factor"),
        high=scaling.get("high_freq_factor"), beta_fast=32, beta_slow=1,
        context=scaling.get("original_max_position_embeddings")), model.head)
    return model


def open_model(path):
    return open_hf(path) if os.path.isdir(path) else open_gguf(path)


def nmse(got, want):
    """The mean square of the error, relative to that of @want."""
    got, want = (numpy.asarray(x, numpy.float64) for x in (got, want))
    return float(((got - want) ** 2).mean() / (want ** 2).mean())


def main(path, out, *tokens):
    logits = Session(open_model(path)).logits([int(t) for t in tokens])
    logits.astype("<f4").tofile(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
