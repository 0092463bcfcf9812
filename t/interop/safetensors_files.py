# SPDX-License-Identifier: MIT
"""Models that the package safetensors writes or reads, for main.py."""
import ctypes
import json
import math
import os
import random
import subprocess
from types import SimpleNamespace

import safetensors

# The writer's names, its bytes of N elements of the last dimension, and the names
# in a header. It writes no other; F4 has two elements in a byte.
DTYPES = {
    "bool": (1, "BOOL"), "uint8": (1, "U8"), "int8": (1, "I8"),
    "float8_e4m3fn": (1, "F8_E4M3"), "float8_e5m2": (1, "F8_E5M2"),
    "float8_e8m0fnu": (1, "F8_E8M0"), "float8_e4m3fnuz": (1, "F8_E4M3FNUZ"),
    "float8_e5m2fnuz": (1, "F8_E5M2FNUZ"), "float4_e2m1fn_x2": (1, "F4"),
    "int16": (2, "I16"), "uint16": (2, "U16"), "float16": (2, "F16"),
    "bfloat16": (2, "BF16"), "int32": (4, "I32"), "uint32": (4, "U32"),
    "float32": (4, "F32"), "int64": (8, "I64"), "uint64": (8, "U64"),
    "float64": (8, "F64"), "complex64": (8, "C64"),
}
ODD_NAMES = [
    "", " ", "a", "a.b", "A", 'quo"te', "back\\slash", "sla/sh", "../up", "/x",
    "tab\there", "line\nfeed", "nul\0inside", "esc\x1b[31m", "del\x7f",
    "\u00fcml\u00e4ut", "e\u0301", "\u00e9", "\u4f60\u597d", "\U0001f600",
    "\u202eleft", "\ufeff", "\uffff", "__metadata__ ", "data_offsets",
    "x" * 5000,
]


def save(path, tensors, metadata=None):
    """@tensors: {name: (dtype of the writer, shape of the storage, bytes)}"""
    keep, specs = [], {}
    for name, (dtype, shape, data) in tensors.items():
        buf = ctypes.create_string_buffer(data, max(len(data), 1))
        keep.append(buf)
        specs[name] = safetensors.TensorSpec(
            dtype=dtype, shape=list(shape), data_ptr=ctypes.addressof(buf),
            data_len=len(data))
    safetensors.serialize_file(specs, path, metadata)


def header_shape(dtype, shape):
    if dtype != "float4_e2m1fn_x2":
        return list(shape)
    return [*shape[:-1], shape[-1] * 2]


def make(path, tensors, metadata=None):
    save(path, tensors, metadata)
    return case(path, tensors, metadata)


def case(model, tensors, metadata=None):
    return SimpleNamespace(
        model=model, metadata=metadata or {}, types=None, warnings=0,
        tensors={
            name: (DTYPES[dtype][1], header_shape(dtype, shape), data)
            for name, (dtype, shape, data) in tensors.items()})


def tensor(dtype, shape, seed):
    n = DTYPES[dtype][0] * math.prod(shape)
    return dtype, shape, random.Random(seed).randbytes(n)


def all_dtypes():
    """a safetensors file of all dtypes that its package writes is loaded"""
    shapes = [[6], [2, 3, 4], [0, 4], [1, 1, 1, 1, 1, 1, 1, 2]]
    tensors = {f"{dtype}.{i}": tensor(dtype, shape, f"{dtype}{i}")
               for dtype in DTYPES for i, shape in enumerate(shapes)}
    for dtype in DTYPES:
        if dtype != "float4_e2m1fn_x2":
            tensors[f"{dtype}.scalar"] = tensor(dtype, [], dtype)
    return make("dtypes.safetensors", tensors)


def odd_names():
    """names and metadata of every kind of character are read from safetensors"""
    return make("names.safetensors",
                {name: tensor("uint8", [i], i)
                 for i, name in enumerate(ODD_NAMES)},
                {name: ODD_NAMES[-i] for i, name in enumerate(ODD_NAMES)})


def no_tensors():
    """a safetensors file without tensors has its metadata"""
    return make("none.safetensors", {}, {"format": "pt"})


def many():
    """3000 safetensors tensors of odd sizes are loaded"""
    sizes = random.Random(3)
    return make("many.safetensors",
                {f"layers.{i}.w": tensor("uint8", [sizes.randrange(3000)], i)
                 for i in range(3000)})


def shards():
    """safetensors shards with an index are loaded as one model"""
    os.mkdir("sharded")
    everything, weight_map = {}, {}
    for i in range(3):
        file = f"model-{i + 1:05}-of-00003.safetensors"
        part = {f"part.{i}.{k}": tensor("bfloat16", [k, 7], i * 9 + k)
                for k in range(8)}
        save(f"sharded/{file}", part)
        everything.update(part)
        weight_map.update(dict.fromkeys(part, file))
    with open("sharded/model.safetensors.index.json", "w",
              encoding="utf-8") as f:
        json.dump({"metadata": {}, "weight_map": weight_map}, f)
    return case("sharded", everything)


def synth():
    """the package safetensors reads from a file of weir synth what weir loads"""
    subprocess.run(["weir", "synth", "tiny", "synth.safetensors"], check=True,
                   stderr=subprocess.DEVNULL)
    with open("synth.safetensors", "rb") as f:
        found = dict(safetensors.deserialize(f.read()))
    return SimpleNamespace(
        model="synth.safetensors", metadata={"format": "pt"}, types=None,
        warnings=0, tensors={
            name: (t["dtype"], t["shape"], bytes(t["data"]))
            for name, t in found.items()})


CASES = [all_dtypes, odd_names, no_tensors, many, shards, synth]
