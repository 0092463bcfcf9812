#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""open_gguf.py BENCH_OPEN [ROUNDS]: opening GGUF files, weir and the package gguf.

Writes a file of 100,000 tensors and one with a vocabulary of 256,000 strings and
280,000 merges, sparse except for their headers, and opens them by turns, from the
page cache, in ROUNDS (5) rounds. Prints the median times, and the median of the
ratios of a round. The package takes minutes. Needs a Python that has it, such as
build/python/bin/python.
"""
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from gguf import GGUFReader

STRING, ARRAY, F32, I32 = 8, 9, 6, 5


def string(text):
    text = text.encode()
    return struct.pack("<Q", len(text)) + text


def strings(key, items):
    return string(key) + struct.pack("<IIQ", ARRAY, STRING, len(items)) + \
        b"".join(map(string, items))


def numbers(key, kind, letter, items):
    return string(key) + struct.pack("<IIQ", ARRAY, kind, len(items)) + \
        struct.pack(f"<{len(items)}{letter}", *items)


def infos(n):
    """F16 tensors of 16 x 16 elements."""
    return b"".join(
        string(f"blk.{i // 9}.ffn_{'dgqkvonau'[i % 9]}.weight")
        + struct.pack("<IQQIQ", 2, 16, 16, 1, i * 512) for i in range(n))


def write(path, pairs, n):
    header = b"GGUF" + struct.pack("<IQQ", 3, n, len(pairs)) + \
        b"".join(pairs) + infos(n)
    with open(path, "wb") as file:
        file.write(header)
        file.truncate(len(header) + 32 + n * 512)


def vocabulary(words, merges):
    return [
        strings("tokenizer.ggml.tokens", [f"\u2581word{i}" for i in range(words)]),
        numbers("tokenizer.ggml.scores", F32, "f",
                [-float(i) for i in range(words)]),
        numbers("tokenizer.ggml.token_type", I32, "i", [1] * words),
        strings("tokenizer.ggml.merges",
                [f"\u2581wo{i} rd{i}" for i in range(merges)]),
    ]


def by_weir(bench_open, path):
    """Seconds, of "25.0 ms, 250 ns each (250-250)"."""
    out = subprocess.run([bench_open, path, "1"], check=True, text=True,
                         stdout=subprocess.PIPE).stdout
    return float(out[:out.index(" ms,")]) / 1e3


def by_package(path):
    begun = time.perf_counter()
    GGUFReader(path)
    return time.perf_counter() - begun


def compare(what, bench_open, path, rounds):
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(by_weir(bench_open, path))
        theirs.append(by_package(path))
    ratio = statistics.median(t / o for o, t in zip(ours, theirs))
    print(f"{what}: weir {statistics.median(ours):.4f} s "
          f"({min(ours):.4f}-{max(ours):.4f}), gguf "
          f"{statistics.median(theirs):.2f} s, {ratio:.0f} times", flush=True)


def main(bench_open, rounds=5):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        path = f"{folder}/tensors.gguf"
        write(path, [], 100000)
        compare("100,000 tensors", bench_open, path, int(rounds))
        path = f"{folder}/vocabulary.gguf"
        write(path, vocabulary(256000, 280000), 1)
        compare("256,000 words, 280,000 merges", bench_open, path,
                int(rounds))


main(*sys.argv[1:])
