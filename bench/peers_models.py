# SPDX-License-Identifier: MIT
"""The models that are loaded. weir synth writes them, once.

The uneven shards are a file of weir synth that is split here.
"""
import json
import os
import struct
import subprocess

# Shares of the eight shards, in the order of their numbers.
UNEVEN = (13, 2, 1, 21, 3, 8, 1, 5)


class Model:
    def __init__(self, key, title, path, paths, mapped=False, python=False):
        self.key = key
        self.title = title
        self.path = path            # what weir is given
        self.paths = paths          # what the others are given
        self.gguf = path.endswith(".gguf")
        self.mapped = mapped        # not copied: the pages of the file
        self.python = python        # load_file() of both, every byte read

    def count_bytes(self):
        """Of all tensors; of GGUF also the header, which has some KB."""
        if self.gguf:
            return os.path.getsize(self.path)
        return sum(end - begin for path in self.paths
                   for begin, end in (e["data_offsets"] for e in
                                      read_header(path)[0].values()))


def read_header(path):
    """Names with their entries, and the offset of the data."""
    with open(path, "rb") as f:
        length = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(length))
    header.pop("__metadata__", None)
    return header, 8 + length


def synth(weir, out, *args):
    if not os.path.exists(out):
        print(f"writing {out}", flush=True)
        subprocess.run([weir, "synth", args[0], out, *args[1:]], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def deal(header, shares):
    """Lists of names for each shard: in file order, by shares of the bytes."""
    names = sorted(header, key=lambda n: header[n]["data_offsets"])
    total = header[names[-1]]["data_offsets"][1]
    shards = [[] for _ in shares]
    edge, k = shares[0], 0
    for name in names:
        begin = header[name]["data_offsets"][0]
        while begin >= total * edge / sum(shares) and k + 1 < len(shares):
            k += 1
            edge += shares[k]
        shards[k].append(name)
    return shards


def write_shard(source, data, header, names, path):
    entries, offset = {"__metadata__": {"format": "pt"}}, 0
    for name in names:
        begin, end = header[name]["data_offsets"]
        entries[name] = dict(header[name],
                             data_offsets=[offset, offset + end - begin])
        offset += end - begin
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            begin, end = header[name]["data_offsets"]
            source.seek(data + begin)
            out.write(source.read(end - begin))
        out.flush()
        os.fsync(out.fileno())


def shard(whole, folder):
    """Write the tensors of @whole as eight uneven shards with an index."""
    index = os.path.join(folder, "model.safetensors.index.json")
    files = [f"model-{i + 1:05}-of-{len(UNEVEN):05}.safetensors"
             for i in range(len(UNEVEN))]
    paths = [os.path.join(folder, name) for name in files]
    if os.path.exists(index):
        return paths
    print(f"writing {folder}", flush=True)
    os.makedirs(folder, exist_ok=True)
    header, data = read_header(whole)
    shards = deal(header, UNEVEN)
    with open(whole, "rb", buffering=0) as source:
        for names, path in zip(shards, paths):
            write_shard(source, data, header, names, path)
    weight_map = {n: f for names, f in zip(shards, files) for n in names}
    total = max(e["data_offsets"][1] for e in header.values())
    with open(index, "w", encoding="ascii") as f:
        json.dump({"metadata": {"total_size": total},
                   "weight_map": weight_map}, f)
    return paths


def gguf(python, out, *args):
    """Written by the package gguf, which only @python has."""
    if not os.path.exists(out):
        print(f"writing {out}", flush=True)
        here = os.path.dirname(os.path.abspath(__file__))
        subprocess.run([python, os.path.join(here, "peers_gguf.py"), out,
                        *args], check=True)
    return out


def make(weir, python, folder, only):
    """The models, and a function that makes the tiny one of a model."""
    os.makedirs(folder, exist_ok=True)
    large = os.path.join(folder, "large.safetensors")
    many = os.path.join(folder, "many.safetensors")
    whole = os.path.join(folder, "whole.safetensors")
    shards = os.path.join(folder, "shards")
    tiny = os.path.join(folder, "tiny.safetensors")
    synth(weir, tiny, "many", "--count", "50")
    if {"large", "py-large", "py-large-map"} & set(only):
        synth(weir, large, "tinyllama-1.1b")
    if {"many", "py-many", "py-many-map"} & set(only):
        synth(weir, many, "many", "--count", "20000")
    if "shards" in only:
        synth(weir, whole, "tinyllama-1.1b", "--scale", "0.5", "--seed", "1")
    llama = os.path.join(folder, "llama.gguf")

    def tiny_of(model):
        if not model.gguf:
            return Model("tiny", "a tiny file", tiny, [tiny], model.mapped,
                         model.python)
        path = gguf(python, os.path.join(folder, "tiny.gguf"), "tiny")
        return Model("tiny", "a tiny file", path, [path], model.mapped)
    models = {
        "large": lambda: Model("large", "one large file", large, [large]),
        "many": lambda: Model("many", "20,000 small tensors", many, [many]),
        "shards": lambda: Model("shards", "8 uneven shards", shards,
                                shard(whole, shards)),
        "gguf": lambda: Model("gguf", "a GGUF file", gguf(python, llama),
                              [llama]),
        "gguf-map": lambda: Model("gguf-map", "a GGUF file, mapped",
                                  gguf(python, llama), [llama], mapped=True),
        "py-large": lambda: Model("py-large", "one large file, from Python",
                                  large, [large], python=True),
        "py-large-map": lambda: Model(
            "py-large-map", "one large file, from Python, mapped", large,
            [large], mapped=True, python=True),
        "py-many": lambda: Model("py-many", "20,000 small tensors, from Python",
                                 many, [many], python=True),
        "py-many-map": lambda: Model(
            "py-many-map", "20,000 small tensors, from Python, mapped", many,
            [many], mapped=True, python=True),
        "tiny": lambda: Model("tiny", "a tiny file", tiny, [tiny]),
    }
    return [models[key]() for key in only], tiny_of
