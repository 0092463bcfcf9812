# SPDX-License-Identifier: MIT
"""Compares what weir saves with what safetensors and gguf read; prints TAP.

reference.py RANDOM_MODEL: the program that saves random models and describes them.
Runs in an empty folder of its own.
"""
import glob
import json
import os
import subprocess
import sys
import traceback

import gguf
import safetensors
from safetensors import safe_open

SEEDS = int(os.environ.get("WEIR_T_MODELS", "12"))
FIRST = int(os.environ.get("WEIR_T_SEED", "1"))


class Wrong(Exception):
    pass


def text(digits):
    return bytes.fromhex(digits).decode()


def number(word):
    return float(word) if set(word) & set(".e") else int(word)


def save(program, seed, kind, path, shard):
    """{name: (dtype, shape, bytes)} and {key: value} of what was saved."""
    newest = int(max(gguf.GGMLQuantizationType))
    done = subprocess.run(
        [program, str(seed), kind, path, str(shard), str(newest)],
        capture_output=True, text=True, check=False)
    if done.returncode:
        raise Wrong(done.stderr)
    tensors, pairs = {}, {}
    with open(path + ".raw", "rb") as raw:
        for line in done.stdout.splitlines():
            word = line.split(" ")
            if word[0] == "t":
                tensors[text(word[1])] = (word[2], list(map(int, word[4:])),
                                          raw.read(int(word[3])))
            else:
                one = text if word[2] == "string" else number
                pairs[text(word[1])] = list(map(one, word[3:]))
    return tensors, pairs


def same(what, got, want):
    if got != want:
        raise Wrong(f"{what}\ngot:  {str(got)[:400]}\nwant: {str(want)[:400]}")


def same_tables(what, got, want):
    same(f"names of {what}", sorted(got), sorted(want))
    for key, value in want.items():
        same(f"{what}: {key!r}", got[key], value)


def read_safetensors(path):
    with open(path, "rb") as file:
        found = safetensors.deserialize(file.read())
    with safe_open(path, "np") as file:
        pairs = file.metadata() or {}
    return ({name: (t["dtype"], t["shape"], bytes(t["data"]))
             for name, t in found}, pairs)


def check_safetensors(program, seed, shard):
    tensors, pairs = save(program, seed, "safetensors", "m.safetensors", shard)
    pairs = {key: value[0] for key, value in pairs.items()}
    index = "m.safetensors.index.json"
    if not os.path.exists(index):
        got, got_pairs = read_safetensors("m.safetensors")
        same_tables("tensors", got, tensors)
        same_tables("metadata", got_pairs, pairs)
        return
    with open(index, encoding="utf-8") as file:
        listed = json.load(file)
    same("total_size", listed["metadata"]["total_size"],
         sum(len(t[2]) for t in tensors.values()))
    same("names in the index", sorted(listed["weight_map"]), sorted(tensors))
    for shard_name in set(listed["weight_map"].values()):
        got, got_pairs = read_safetensors(shard_name)
        same_tables(shard_name, got,
                    {name: tensors[name]
                     for name, where in listed["weight_map"].items()
                     if where == shard_name})
        same_tables("metadata of " + shard_name, got_pairs, pairs)


def read_gguf(path):
    reader = gguf.GGUFReader(path)
    tensors = {t.name: (t.tensor_type.name, [int(n) for n in t.shape[::-1]],
                        t.data.tobytes()) for t in reader.tensors}
    pairs = {}
    for key, field in reader.fields.items():
        if key.startswith("GGUF."):
            continue
        value = field.contents()
        pairs[key] = value if isinstance(value, list) else [value]
    return tensors, pairs


def check_gguf(program, seed, shard):
    tensors, pairs = save(program, seed, "GGUF", "m.gguf", shard)
    tensors = {name: (dtype, shape or [1], data)
               for name, (dtype, shape, data) in tensors.items()}
    files = sorted(glob.glob("m-*-of-*.gguf")) or ["m.gguf"]
    got, got_pairs = {}, {}
    for no, path in enumerate(files):
        part, part_pairs = read_gguf(path)
        if len(files) > 1:
            same(f"{path}: its place in the split model",
                 [part_pairs.pop("split." + key)[0]
                  for key in ("no", "count", "tensors.count")],
                 [no, len(files), len(tensors)])
        got |= part
        got_pairs |= part_pairs
    same_tables("tensors", got, tensors)
    same_tables("metadata", got_pairs, pairs)


def main(program):
    print("1..4")
    number_of = 0
    for kind, compare in (("safetensors", check_safetensors),
                          ("gguf", check_gguf)):
        for shard in (0, 3000):
            number_of += 1
            what = "models in shards" if shard else "models in one file"
            bad = None
            for seed in range(FIRST, FIRST + SEEDS):
                for left in glob.glob("m*"):
                    os.unlink(left)
                try:
                    compare(program, seed, shard)
                except Exception:
                    bad = f"seed {seed}: {traceback.format_exc()}"
                    break
            print(f"{'not ' if bad else ''}ok {number_of} - "
                  f"{kind} reads random {what} bit for bit")
            for line in (bad or "").splitlines():
                print("# " + line)


main(sys.argv[1])
