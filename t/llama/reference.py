# SPDX-License-Identifier: MIT
"""Logits of Llama, Mistral and Qwen models, in numpy, from the definitions; no code
of weir's.

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


# RoPE: the radians for each position and pair, and the factor of the result.

def plain(base, size):
    return base ** (-numpy.arange(0, size, 2) / size)


def llama3_factors(rope, wavelengths):
    """Divisors of the frequencies."""
    factor, context = rope.factor, rope.context
    s = (context / wavelengths - rope.low) / (rope.high - rope.low)
    between = 1 / ((1 - s) / factor + s)
    return numpy.where(
        wavelengths < context / rope.high, 1,
        numpy.where(wavelengths > context / rope.low, factor, between))


def yarn_share(base, size, context, fast=32, slow=1, truncate=True):
    """How much each frequency is interpolated."""
    def dim_of(turns):
        return (size * math.log(context / (turns * 2 * math.pi)) /
                (2 * math.log(base)))
    low, high = dim_of(fast), dim_of(slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    pair = numpy.arange(size // 2)
    return numpy.clip((pair - low) / max(high - low, 0.001), 0, 1)


def yarn_magnitude(factor, mscale=1):
    return 1 if factor <= 1 else 1 + 0.1 * mscale * math.log(factor)


def mixed(f, factor, share):
    return f / factor * share + f * (1 - share)


def gguf_rope(of, size, divisors):
    """As llama.cpp. @divisors: of rope_freqs.weight, or 1."""
    base = of("rope.freq_base", 10000.0)
    kind = of("rope.scaling.type", "linear")
    factor = of("rope.scaling.factor", of("rope.scale_linear", 0)) or 1
    magnitude = of("rope.scaling.attn_factor", 1)
    f = plain(base, size) / divisors
    if kind == "yarn":
        context = of("rope.scaling.original_context_length",
                     of("context_length"))
        return (mixed(f, factor, yarn_share(base, size, context)),
                magnitude * yarn_magnitude(factor))
    assert kind in ("none", "linear"), kind
    return f / (1 if kind == "none" else factor), magnitude


def hf_yarn(rope, base, size, context):
    factor, magnitude = rope["factor"], rope.get("attention_factor")
    one, all_dim = rope.get("mscale"), rope.get("mscale_all_dim")
    if magnitude is None and one and all_dim:
        magnitude = yarn_magnitude(factor, one) / yarn_magnitude(factor,
                                                                 all_dim)
    elif magnitude is None:
        magnitude = yarn_magnitude(factor)
    share = yarn_share(base, size, context, rope.get("beta_fast") or 32,
                       rope.get("beta_slow") or 1, rope.get("truncate", True))
    return mixed(plain(base, size), factor, share), magnitude


def hf_rope(config, size):
    """As transformers."""
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    base = rope.get("rope_theta", config.get("rope_theta", 10000.0))
    context = rope.get("original_max_position_embeddings",
                       config["max_position_embeddings"])
    kind = rope.get("rope_type", rope.get("type", "default"))
    f = plain(base, size)
    if kind == "llama3":
        return f / llama3_factors(SimpleNamespace(
            factor=rope["factor"], low=rope["low_freq_factor"],
            high=rope["high_freq_factor"], context=context),
            2 * math.pi / f), 1
    if kind == "yarn":
        return hf_yarn(rope, base, size, context)
    # Within max_position_embeddings the dynamic kind changes nothing.
    assert kind in ("default", "linear", "dynamic"), kind
    return f / (rope["factor"] if kind == "linear" else 1), 1


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


def linear(x, w, name):
    return x @ w(name).T + w(name, "bias")


def by_heads(model, w, name, x, heads):
    x = linear(x, w, name).reshape(len(x), heads, model.head)
    if name + "_norm" in w:
        x = rms_norm(x, model.eps) * w(name + "_norm")
    return x


def attention(model, cache, w, x, positions):
    q = by_heads(model, w, "attn_q", x, model.heads)
    k = by_heads(model, w, "attn_k", x, model.kv_heads)
    v = by_heads(model, w, "attn_v", x, model.kv_heads)
    q, k = rotate(q, positions, model), rotate(k, positions, model)
    if cache:
        k = numpy.concatenate([cache["k"], k])
        v = numpy.concatenate([cache["v"], v])
    cache.update(k=k, v=v)
    ago = positions[:, None] - numpy.arange(len(k))
    hidden = (ago < 0) | (ago >= w.window)
    out = numpy.empty_like(q)
    for h in range(model.heads):
        g = h // (model.heads // model.kv_heads)
        scores = q[:, h] @ k[:, g].T / math.sqrt(model.head)
        out[:, h] = softmax(numpy.where(hidden, -numpy.inf, scores)) @ v[:, g]
    return linear(out.reshape(len(x), -1), w, "attn_output")


def feed_forward(w, x):
    return linear(silu(linear(x, w, "ffn_gate")) * linear(x, w, "ffn_up"), w,
                  "ffn_down")


class Layer:
    """Its tensors, by their names without the layer. @window: how many tokens it
    attends to, itself included."""

    def __init__(self, model, i):
        self.model, self.prefix = model, f"blk.{i}."
        self.window = model.windows[i]

    def __call__(self, name, what="weight"):
        name = f"{self.prefix}{name}.{what}"
        return self.model.tensor(name) if name in self.model.names else 0

    def __contains__(self, name):
        return f"{self.prefix}{name}.weight" in self.model.names


class Session:
    """A model with the tokens that it has read."""

    def __init__(self, model):
        self.model = model
        self.cache = [{} for _ in range(model.layers)]
        self.n = 0

    def logits(self, tokens):
        model = self.model
        positions = numpy.arange(self.n, self.n + len(tokens))
        x = model.tensor("token_embd.weight")[tokens]
        for i, cache in enumerate(self.cache):
            w = Layer(model, i)
            y = rms_norm(x, model.eps) * w("attn_norm")
            x = x + attention(model, cache, w, y, positions)
            y = rms_norm(x, model.eps) * w("ffn_norm")
            x = x + feed_forward(w, y)
        self.n += len(tokens)
        x = rms_norm(x, model.eps) * model.tensor("output_norm.weight")
        output = ("token_embd.weight" if model.tied else "output.weight")
        return x @ model.tensor(output).T

    def greedy(self, tokens, n):
        """The @n tokens that follow, each the one of the greatest logit."""
        found = []
        for _ in range(n):
            tokens = [int(self.logits(tokens)[-1].argmax())]
            found += tokens
        return found


# GGUF

def open_gguf(path):
    from gguf import GGUFReader, quants
    readers = [GGUFReader(file) for file in parts_of(path)]
    fields = readers[0].fields

    def value(key, default=None):
        field = fields.get(key)
        return default if field is None else field.contents()

    arch = value("general.architecture")

    def of(key, default=None):
        return value(f"{arch}.{key}", default)
    tensors = {t.name: t for r in readers for t in r.tensors}
    loaded = {}

    def tensor(name):
        if name not in loaded:
            t = tensors[name]
            loaded[name] = quants.dequantize(
                t.data, t.tensor_type).astype(numpy.float64).reshape(
                    [int(n) for n in t.shape[::-1]])
        return loaded[name]
    heads = of("attention.head_count")
    head = of("attention.key_length", of("embedding_length") // heads)
    frequency, magnitude = gguf_rope(
        of, head, tensor("rope_freqs.weight")
        if "rope_freqs.weight" in tensors else 1)
    return SimpleNamespace(
        layers=of("block_count"), heads=heads, head=head, tensor=tensor,
        names=tensors, kv_heads=of("attention.head_count_kv", heads),
        eps=of("attention.layer_norm_rms_epsilon"),
        pairs="neighbours" if arch == "llama" else "halves",
        tied="output.weight" not in tensors, frequency=frequency,
        magnitude=magnitude, windows=[of("attention.sliding_window") or
                                      math.inf] * of("block_count"))


def parts_of(path):
    """All files of a split model."""
    if "-00001-of-" not in path:
        return [path]
    return sorted(glob.glob(path.replace("-00001-of-", "-*-of-")))


# The layout of Hugging Face

HF_NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj",
            "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
            "attn_output": "self_attn.o_proj",
            "attn_q_norm": "self_attn.q_norm",
            "attn_k_norm": "self_attn.k_norm",
            "ffn_norm": "post_attention_layernorm",
            "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
            "ffn_down": "mlp.down_proj"}


def hf_name(name):
    """The name in safetensors of a tensor of GGUF."""
    if name.startswith("blk."):
        _, layer, rest, what = name.split(".")
        return f"model.layers.{layer}.{HF_NAMES[rest]}.{what}"
    return {"token_embd.weight": "model.embed_tokens.weight",
            "output_norm.weight": "model.norm.weight",
            "output.weight": "lm_head.weight"}[name]


def layer_names(layers):
    return {f"blk.{i}.{name}.{what}" for i in range(layers)
            for name in HF_NAMES for what in ("weight", "bias")}


def hf_windows(config):
    n, kind = config["num_hidden_layers"], config["model_type"]
    window = config.get("sliding_window", 4096) or math.inf
    if kind in ("qwen2", "qwen3"):
        first = (config.get("max_window_layers", 28)
                 if config.get("use_sliding_window") else n)
        types = config.get("layer_types")
        return [window if t == "sliding_attention" else math.inf
                for t in types] if types else [
                    window if i >= first else math.inf for i in range(n)]
    return [window if kind == "mistral" else math.inf] * n


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
    head = config.get("head_dim") or config["hidden_size"] // heads
    frequency, magnitude = hf_rope(config, head)
    names = {name for name in layer_names(config["num_hidden_layers"])
             if hf_name(name) in tensors}
    return SimpleNamespace(
        layers=config["num_hidden_layers"], heads=heads, head=head,
        kv_heads=config.get("num_key_value_heads", heads), names=names,
        eps=config["rms_norm_eps"], pairs="halves", frequency=frequency,
        magnitude=magnitude, windows=hf_windows(config),
        tensor=lambda name: tensors[hf_name(name)],
        tied=config.get("tie_word_embeddings"))


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
