#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/convert_files.py DIR [PAIRS [GB]]: weir convert against other programs.

Writes a model of GB gigabytes (2) in DIR once, then for each row runs weir convert
and the other program PAIRS times (5), one after the other, and prints the median of
the ratio of their times. All wait until the bytes are on the disk. `weir` is found in
PATH. Programs are called in turn; besides the ratio of their times that of their
CPU times is printed, which other programs on the machine disturb less. Rows:

copy    GGUF to GGUF, against cp and sync; the source is in the page cache
cold    the same, with a source that is not in the page cache
Q8_0    F32 to Q8_0, against llama-quantize --pure, if it is in PATH
Q4_0    the same for Q4_0
"""
import array
import os
import random
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import time

GOALS = {"copy": 0.9, "cold": 0.9, "Q8_0": 1.0, "Q4_0": 1.0}


def run(*args):
    subprocess.run(args, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds(work, out):
    """Of work(), and of CPU; @out is removed before, and the disk is idle."""
    if os.path.exists(out):
        os.unlink(out)
    os.sync()
    begin, begin_cpu = time.monotonic(), cpu()
    work()
    return time.monotonic() - begin, cpu() - begin_cpu


def drop(path):
    with open(path, "rb") as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def warm(path):
    with open(path, "rb") as f:
        while f.read(8 << 20):
            pass


def make_model(path, gigabytes):
    if os.path.exists(path):
        return
    scale = gigabytes / 2.2
    run("weir", "synth", "tinyllama-1.1b", path + ".part.gguf", "--scale",
        f"{scale:g}", "--force")
    os.rename(path + ".part.gguf", path)


# Keys without which llama-quantize does not take a file as a model.
KEYS = {"block_count": 1, "context_length": 2048, "embedding_length": 2048,
        "feed_forward_length": 5632, "attention.head_count": 32}
COLUMNS = 2048


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def make_numbers(path, gigabytes):
    """Write a GGUF model of F32: llama-quantize refuses NaNs, which random bytes
    have. All matrices repeat the same 262144 normal numbers."""
    rows, count = 8192, max(1, round(gigabytes * 1e9 / (8192 * COLUMNS * 4)))
    draw = random.Random(7)
    few = array.array("f", (draw.gauss(0, 0.02) for _ in range(1 << 18)))
    block = few.tobytes() * (rows * COLUMNS // len(few))
    head = struct.pack("<4sIQQ", b"GGUF", 3, count, len(KEYS) + 2)
    head += text("general.architecture") + struct.pack("<I", 8) + text("llama")
    for key, n in KEYS.items():
        head += text(f"llama.{key}") + struct.pack("<II", 4, n)
    head += text("llama.attention.layer_norm_rms_epsilon") + struct.pack(
        "<If", 6, 1e-5)
    for i in range(count):
        head += text(f"blk.{i}.ffn_up.weight") + struct.pack(
            "<IQQIQ", 2, COLUMNS, rows, 0, i * len(block))
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32))
        for _ in range(count):
            f.write(block)


def row(name, pairs, source, out, weir, other, before):
    ratios, of_cpu, rates = [], [], []
    size = os.path.getsize(source)
    for i in range(pairs):
        times = {}
        for work in (weir, other) if i % 2 else (other, weir):
            before(source)
            times[work] = seconds(work, out)
        ratios.append(times[other][0] / times[weir][0])
        of_cpu.append(times[other][1] / times[weir][1])
        rates.append(size / times[weir][0] / 1e9)
    ratio = statistics.median(ratios)
    print(f"{name:6} {statistics.median(rates):6.2f} GB/s  ratio {ratio:5.2f}"
          f"  ({min(ratios):.2f} to {max(ratios):.2f}), goal {GOALS[name]}"
          f", CPU time {statistics.median(of_cpu):5.2f}",
          flush=True)
    return ratio >= GOALS[name]


def main(folder, pairs=5, gigabytes=2.0):
    pairs = int(pairs)
    source = os.path.join(folder, "convert.gguf")
    wide = os.path.join(folder, "convert-f32.gguf")
    out = os.path.join(folder, "convert-out.gguf")
    make_model(source, float(gigabytes))

    def convert(of, *options):
        return lambda: run("weir", "convert", "--quiet", of, out, *options)

    def copy():
        run("cp", source, out)
        run("sync", out)

    good = row("copy", pairs, source, out, convert(source), copy, warm)
    good &= row("cold", pairs, source, out, convert(source), copy, drop)
    if not shutil.which("llama-quantize"):
        print("Q8_0, Q4_0: llama-quantize is not in PATH")
    else:
        make_numbers(wide, float(gigabytes))
        for kind in "Q8_0", "Q4_0":
            def quantise(kind=kind):
                run("llama-quantize", "--pure", wide, out, kind,
                    str(os.cpu_count()))
                run("sync", out)
            good &= row(kind, pairs, wide, out,
                        convert(wide, "--dtype", kind.lower()), quantise, warm)
    for path in out, wide:
        if os.path.exists(path):
            os.unlink(path)
    sys.exit(not good)


if __name__ == "__main__":
    main(*sys.argv[1:])
