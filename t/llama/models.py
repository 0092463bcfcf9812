# SPDX-License-Identifier: MIT
"""Small random models, for main.py.

Each model has the same random numbers for weights, as Hugging Face stores them.
GGUF files of Llama get the rows of Q and K in the order that converters give them.
"""
import json
import math
import os
import struct
from types import SimpleNamespace

import gguf
import numpy
from gguf import GGMLQuantizationType as Type
from gguf import GGUFValueType as Value

from reference import hf_name, llama3_factors

TOKENS = [1, 17, 80, 3, 3, 41, 95, 0, 66, 12, 58, 7, 29, 90, 33, 71, 5, 84, 20,
          49, 62]

LINEAR = {"rope_type": "linear", "factor": 4.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
YARN = {"rope_type": "yarn", "factor": 4.0,
        "original_max_position_embeddings": 32}

# What families of models have besides that of Llama.
ATTENTION = ("attn_q", "attn_k", "attn_v", "attn_output")
QWEN2 = {"family": "qwen2", "biases": ATTENTION[:3]}
QWEN3 = {"family": "qwen3", "norms": True, "head": 24}
MISTRAL = {"family": "mistral"}

# What GPUs compute: dtypes of GGUF, and what each changes in the shape.
WIDE = {"embedding": 256, "head": 64, "inner": 256}
KINDS = [(kind, kind.name, {}) for kind in (
    Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0)] + [
        (Type.Q4_K, "Q4_K with some Q6_K", WIDE), (Type.Q6_K, "Q6_K", WIDE)]
# Devices, and a share of the file with which weights are read in each pass.
FED = ("CUDA0", 0.6), ("CUDA0,CUDA1", 0.4)


def shape(**changed):
    """The hyperparameters of a model, some of them changed."""
    values = {"embedding": 64, "layers": 2, "heads": 4, "kv_heads": 2,
              "head": 16, "inner": 160, "vocabulary": 96, "base": 10000.0,
              "eps": 1e-5, "context": 256, "tied": False, "rope": None,
              "family": "llama", "biases": (), "norms": False}
    values.update(changed)
    return SimpleNamespace(**values)


def weights(s):
    """{name of GGUF: F32}"""
    random = numpy.random.default_rng(7)
    others = numpy.random.default_rng(8)

    def matrix(rows, columns, scale=1):
        return (random.standard_normal((rows, columns)) * scale /
                math.sqrt(columns)).astype(numpy.float32)

    def norm():
        return (1 + 0.2 * random.standard_normal(s.embedding)).astype(
            numpy.float32)

    def vector(n, mean, deviation):
        return (mean + deviation * others.standard_normal(n)).astype(
            numpy.float32)
    found = {"token_embd.weight": matrix(s.vocabulary, s.embedding, 4)}
    for i in range(s.layers):
        for name, value in (
                ("attn_norm", norm()),
                ("attn_q", matrix(s.heads * s.head, s.embedding)),
                ("attn_k", matrix(s.kv_heads * s.head, s.embedding)),
                ("attn_v", matrix(s.kv_heads * s.head, s.embedding)),
                ("attn_output", matrix(s.embedding, s.heads * s.head)),
                ("ffn_norm", norm()),
                ("ffn_gate", matrix(s.inner, s.embedding)),
                ("ffn_up", matrix(s.inner, s.embedding)),
                ("ffn_down", matrix(s.embedding, s.inner))):
            found[f"blk.{i}.{name}.weight"] = value
            if name in s.biases:
                found[f"blk.{i}.{name}.bias"] = vector(len(value), 0, 0.5)
        for name in ("attn_q_norm", "attn_k_norm") if s.norms else ():
            found[f"blk.{i}.{name}.weight"] = vector(s.head, 1, 0.3)
    found["output_norm.weight"] = norm()
    if not s.tied:
        found["output.weight"] = matrix(s.vocabulary, s.embedding)
    return found


# GGUF

def permuted(rows, heads):
    """Rows of Q or K: neighbours rotate together, not the halves of a head."""
    return rows.reshape(heads, 2, len(rows) // heads // 2, -1).swapaxes(
        1, 2).reshape(rows.shape)


def gguf_keys(s, integer):
    real, text = Value.FLOAT32, Value.STRING
    keys = {"context_length": (s.context, integer),
            "embedding_length": (s.embedding, integer),
            "block_count": (s.layers, integer),
            "feed_forward_length": (s.inner, integer),
            "attention.head_count": (s.heads, integer),
            "attention.layer_norm_rms_epsilon": (s.eps, real),
            "vocab_size": (s.vocabulary, integer)}
    if s.kv_heads != s.heads:
        keys["attention.head_count_kv"] = s.kv_heads, integer
    if s.base != 10000:
        keys["rope.freq_base"] = s.base, real
    if s.head * s.heads != s.embedding:
        keys["attention.key_length"] = s.head, integer
        keys["attention.value_length"] = s.head, integer
        keys["rope.dimension_count"] = s.head, integer
    if s.rope and s.rope["rope_type"] != "llama3":
        keys["rope.scaling.type"] = s.rope["rope_type"], text
        keys["rope.scaling.factor"] = s.rope["factor"], real
        if s.rope["rope_type"] == "yarn":
            keys["rope.scaling.original_context_length"] = (
                s.rope["original_max_position_embeddings"], integer)
    return keys


def rope_freqs(s):
    rope = SimpleNamespace(
        factor=s.rope["factor"], low=s.rope["low_freq_factor"],
        high=s.rope["high_freq_factor"],
        context=s.rope["original_max_position_embeddings"])
    f = s.base ** (-numpy.arange(0, s.head, 2) / s.head)
    return llama3_factors(rope, 2 * math.pi / f).astype(numpy.float32)


def gguf_tensors(s):
    for name, value in weights(s).items():
        if s.family in ("llama", "mistral") and ".attn_q." in name:
            value = permuted(value, s.heads)
        elif s.family in ("llama", "mistral") and ".attn_k." in name:
            value = permuted(value, s.kv_heads)
        yield name, value
    if s.rope and s.rope["rope_type"] == "llama3":
        yield "rope_freqs.weight", rope_freqs(s)


# Where a block has its factors in F16, and factors that give weights as large
# as those of weights().
FACTORS = {Type.Q4_K: ((0, 2.4e-4), (2, 1.8e-3)), Type.Q6_K: ((208, 4.6e-5),)}


def random_blocks(kind, shape, seed):
    """Of kinds for which the package gguf has no quantiser."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    rows, columns = shape
    data = numpy.random.default_rng(seed).integers(
        0, 256, (rows, columns // block, size), numpy.uint8)
    for at, factor in FACTORS[kind]:
        data[..., at:at + 2] = numpy.frombuffer(
            numpy.float16(factor).tobytes(), numpy.uint8)
    return data.reshape(rows, -1)


def quantise(value, kind):
    if kind in FACTORS:
        return random_blocks(kind, value.shape, value.size)
    return gguf.quants.quantize(value, kind)


def write_gguf(path, s, kind=Type.F32, integer=Value.UINT32, parts=1,
               arch=None, keys=(), words=0, drop=(), tensors=(), add=None):
    """@arch: another than that of the family. @keys: changed keys, None: left
    out. @words: of a tokenizer. @drop: tensors that are left out, @tensors:
    {name: array} others. @add: a function that adds other keys to the writer."""
    arch = arch or {"mistral": "llama"}.get(s.family, s.family)
    out = gguf.GGUFWriter(path, arch, split_max_tensors=math.ceil(
        (3 + 9 * s.layers) / parts) if parts > 1 else 0)
    for key, value in {**gguf_keys(s, integer), **dict(keys)}.items():
        if value is not None:
            out.add_key_value(f"{arch}.{key}", *value)
    if words:
        out.add_token_list([f"word{i}" for i in range(words)])
    if add:
        add(out)
    for name, value in {**dict(gguf_tensors(s)), **dict(tensors)}.items():
        if name in drop:
            continue
        own = kind if value.ndim == 2 else Type.F32
        if kind == Type.Q4_K and name in ("output.weight",
                                          "blk.0.attn_v.weight"):
            own = Type.Q6_K     # as in files of Q4_K_M
        out.add_tensor(name, quantise(value, own), raw_dtype=own)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return path if parts == 1 else (
        f"{path[:-len('.gguf')]}-00001-of-{parts:05}.gguf")


# The layout of Hugging Face

NULL = object()


def encode(value, dtype):
    if dtype == "BF16":
        return gguf.quants.quantize(value, Type.BF16).tobytes()
    return value.astype({"F32": "<f4", "F16": "<f2"}[dtype]).tobytes()


def write_safetensors(path, tensors, dtype):
    header, data = {}, b""
    for name, value in tensors.items():
        own = encode(value, dtype)
        header[name] = {"dtype": dtype, "shape": value.shape,
                        "data_offsets": [len(data), len(data) + len(own)]}
        data += own
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def hf_config(s):
    names = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2",
             "qwen3": "Qwen3"}
    config = {"architectures": [names[s.family] + "ForCausalLM"],
              "model_type": s.family, "torch_dtype": "float32",
              "hidden_act": "silu", "hidden_size": s.embedding,
              "num_hidden_layers": s.layers, "num_attention_heads": s.heads,
              "num_key_value_heads": s.kv_heads, "intermediate_size": s.inner,
              "vocab_size": s.vocabulary, "rms_norm_eps": s.eps,
              "max_position_embeddings": s.context, "rope_theta": s.base,
              "rope_scaling": s.rope, "tie_word_embeddings": s.tied,
              "attention_bias": "attn_output" in s.biases,
              "mlp_bias": "ffn_down" in s.biases}
    if s.family in ("qwen2", "qwen3"):
        config.update(use_sliding_window=False, sliding_window=5,
                      max_window_layers=1)
    if s.head * s.heads != s.embedding:
        config["head_dim"] = s.head
    return config


def write_hf(folder, s, dtype="F32", parts=1, config=(), drop=()):
    """@config: changed members, None: left out, NULL: null. @drop as of
    write_gguf."""
    os.makedirs(folder)
    changed = {**hf_config(s), **dict(config)}
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({k: None if v is NULL else v for k, v in changed.items()
                   if v is not None}, f)
    tensors = {hf_name(name): value for name, value in weights(s).items()
               if name not in drop}
    if parts == 1:
        write_safetensors(os.path.join(folder, "model.safetensors"), tensors,
                          dtype)
        return folder
    names, files = list(tensors), {}
    for i in range(parts):
        file = f"model-{i + 1:05}-of-{parts:05}.safetensors"
        own = names[i::parts]
        files.update(dict.fromkeys(own, file))
        write_safetensors(os.path.join(folder, file),
                          {name: tensors[name] for name in own}, dtype)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {}, "weight_map": files}, f)
    return folder
