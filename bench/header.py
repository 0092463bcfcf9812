#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""header.py COUNT FILE: a safetensors file of COUNT tensors of 512 bytes.

The file is sparse except for its header, which for a million tensors has nearly
the 100 MB that the format allows.
"""
import sys

PARTS = ("down", "gate", "k", "norm", "o", "q", "up", "v")
BYTES = 512


def entry(i):
    layer, part = divmod(i, len(PARTS))
    return '"layers.%d.%s.weight":{"dtype":"BF16","shape":[16,16],' \
        '"data_offsets":[%d,%d]}' % (layer, PARTS[part], i * BYTES,
                                     (i + 1) * BYTES)


def main(count, path):
    text = "{" + ",".join(entry(i) for i in range(count)) + "}"
    text += " " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text.encode())
        file.truncate(8 + len(text) + count * BYTES)


main(int(sys.argv[1]), sys.argv[2])
