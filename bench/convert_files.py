#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/convert_files.py DIR [PAIRS [GB]]: weir convert against other programs.

Writes a model of GB gigabytes (2) in DIR once, then for each row runs weir convert
and the other program PAIRS times (5), one after the other, and prints the median of
the ratio of their times. All wait until the bytes are on the disk. `weir` is found in
PATH. Rows:

copy    GGUF to GGUF, against cp and sync; the source is in the page cache
cold    the same, with a source that is not in the page cache
Q8_0    F32 to Q8_0, against llama-quantize --pure, if it is in PATH
Q4_0    the same for Q4_0
"""
import os
import shutil
import statistics
import subprocess
import sys
import time

GOALS = {"copy": 0.9, "cold": 0.9, "Q8_0": 1.0, "Q4_0": 1.0}


def run(*args):
    subprocess.run(args, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def seconds(work, out):
    """Of work(); @out is removed before, and the disk is idle."""
    if os.path.exists(out):
        os.unlink(out)
    os.sync()
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


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


def row(name, pairs, source, out, weir, other, before):
    ratios, rates = [], []
    size = os.path.getsize(source)
    for i in range(pairs):
        times = {}
        for work in (weir, other) if i % 2 else (other, weir):
            before(source)
            times[work] = seconds(work, out)
        ratios.append(times[other] / times[weir])
        rates.append(size / times[weir] / 1e9)
    ratio = statistics.median(ratios)
    print(f"{name:6} {statistics.median(rates):6.2f} GB/s  ratio {ratio:5.2f}"
          f"  ({min(ratios):.2f} to {max(ratios):.2f}), goal {GOALS[name]}",
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
        run("weir", "convert", source, wide, "--dtype", "f32", "--force")
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
