#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/peers_open.py FILE.gguf: opening, by weir and by the package gguf.

Run it in the build folder, after `make bench`, with a Python that has the
package gguf. The two alternate; times are medians, and the ratio is the median
of those of the rounds. Importing is not timed, nor is starting bench/open.
"""
import re
import subprocess
import sys
import time
from statistics import median

from gguf import GGUFReader

ROUNDS = 5


def by_weir(path):
    said = subprocess.run(["bench/open", path], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    return float(re.search(r"^([\d.]+) ms,", said, re.MULTILINE)[1]) / 1e3


def by_gguf(path):
    begun = time.perf_counter()
    GGUFReader(path)
    return time.perf_counter() - begun


def main():
    path = sys.argv[1]
    pairs = [(by_weir(path), by_gguf(path)) for _ in range(ROUNDS)]
    ratios = sorted(b / a for a, b in pairs)
    weir, other = (median(x) for x in zip(*pairs))
    print(f"weir {weir * 1e3:.1f} ms, gguf {other * 1e3:.0f} ms: "
          f"{median(ratios):.0f} times weir's "
          f"({ratios[0]:.0f}-{ratios[-1]:.0f})")


if __name__ == "__main__":
    main()
