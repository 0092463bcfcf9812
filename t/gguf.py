# SPDX-License-Identifier: MIT
"""A small writer and reader of GGUF that shares no code with the library.

write PATH [PARTS]  a model of 12 tensors, all of it in one file or split
values              the metadata that write has written, as JSON
list PATH...        NAME, DTYPE, SHAPE, FILE, OFFSET, BYTES of each tensor
sums PATH...        SHA-256 and name of each tensor, sorted by name
"""
import hashlib
import json
import os
import struct
import sys

# Number, elements and bytes of a block.
TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "BF16": (30, 1, 2),
         "Q4_0": (2, 32, 18), "Q8_0": (8, 32, 34), "Q6_K": (14, 256, 210),
         "I8": (24, 1, 1), "I16": (25, 1, 2), "I32": (26, 1, 4),
         "I64": (27, 1, 8), "F64": (28, 1, 8)}
VALUES = {"u8": (0, "B"), "i8": (1, "b"), "u16": (2, "H"), "i16": (3, "h"),
          "u32": (4, "I"), "i32": (5, "i"), "f32": (6, "f"), "bool": (7, "?"),
          "str": (8, None), "u64": (10, "Q"), "i64": (11, "q"), "f64": (12, "d")}
ALIGN = 32

# Shapes have the outermost dimension first.
TENSORS = [("token_embd.weight", "Q4_0", [50, 64]),
           ("output_norm.weight", "F32", [64]),
           ("blk.0.attn_q.weight", "Q6_K", [3, 512]),
           ("blk.0.attn_k.weight", "Q8_0", [2, 3, 32]),
           ("blk.0.ffn_up.weight", "F16", [5, 7]),
           ("blk.0.ffn_down.weight", "BF16", [1, 2, 3, 5]),
           ("blk.0.scale", "F64", []),
           ("empty", "F32", [4, 0]),
           ("ids", "I32", [9]),
           ("bytes", "I8", [1001]),
           ("last", "F32", [300, 40]),
           ("zz", "F16", [3])]
PAIRS = [("general.architecture", "str", "test"),
         ("general.alignment", "u32", ALIGN),
         ("test.u8", "u8", 255), ("test.i8", "i8", -128),
         ("test.u16", "u16", 65535), ("test.i16", "i16", -32768),
         ("test.i32", "i32", -2**31), ("test.u64", "u64", 2**64 - 1),
         ("test.i64", "i64", -2**63), ("test.f32", "f32", 0.1),
         ("test.f64", "f64", 0.1), ("test.inf", "f32", float("-inf")),
         ("test.bool", "bool", True), ("test.text", "str", "a\nb\\"),
         ("tokenizer.ggml.tokens", ["str"], ["<s>", "", "é"] * 100),
         ("tokenizer.ggml.scores", ["f32"], [-1.5, 0.0, 3.25]),
         ("test.none", ["u32"], []),
         ("test.bools", ["bool"], [True, False]),
         ("test.nested", [["i16"]], [[1, -2], [], [3]])]


def string(s):
    s = s.encode()
    return struct.pack("<Q", len(s)) + s


def array(kind, items):
    """The type of the items, their number and the items."""
    of = kind[0]
    if isinstance(of, list):
        return struct.pack("<IQ", 9, len(items)) + b"".join(
            array(of, item) for item in items)
    number, code = VALUES[of]
    body = (b"".join(map(string, items)) if code is None
            else struct.pack("<%d%s" % (len(items), code), *items))
    return struct.pack("<IQ", number, len(items)) + body


def pair(key, kind, value):
    if isinstance(kind, list):
        return string(key) + struct.pack("<I", 9) + array(kind, value)
    number, code = VALUES[kind]
    return string(key) + struct.pack("<I", number) + (
        string(value) if code is None else struct.pack("<" + code, value))


def size_of(dtype, shape):
    _, block, size = TYPES[dtype]
    n = 1
    for dim in shape:
        n *= dim
    return n // block * size


def up(n):
    return -(-n // ALIGN) * ALIGN


def head(n_tensors, pairs):
    return struct.pack("<4sIQQ", b"GGUF", 3, n_tensors, len(pairs)) + b"".join(
        pair(*p) for p in pairs)


def header_of(name, dtype, shape, offset):
    return string(name) + struct.pack("<I", len(shape)) + b"".join(
        struct.pack("<Q", dim) for dim in reversed(shape)) + struct.pack(
            "<IQ", TYPES[dtype][0], offset)


def write_file(path, pairs, tensors):
    parts = [head(len(tensors), pairs)]
    offset = 0
    for name, dtype, shape in tensors:
        parts.append(header_of(name, dtype, shape, offset))
        offset += up(size_of(dtype, shape))
    header = b"".join(parts)
    with open(path, "wb") as f:
        f.write(header.ljust(up(len(header)), b"\0"))
        for name, dtype, shape in tensors:
            n = size_of(dtype, shape)
            data = hashlib.shake_128(name.encode()).digest(n)
            f.write(data.ljust(up(n), b"\0"))


def write(path, parts="1"):
    parts = int(parts)
    if parts == 1:
        return write_file(path, PAIRS, TENSORS)
    for i in range(parts):
        own = [("split.no", "u16", i), ("split.count", "u16", parts),
               ("split.tensors.count", "i32", len(TENSORS))]
        write_file("%s-%05d-of-%05d.gguf" % (path, i + 1, parts),
                   own if i else PAIRS + own,
                   TENSORS[i * len(TENSORS) // parts:
                           (i + 1) * len(TENSORS) // parts])


class Reader:
    def __init__(self, path):
        with open(path, "rb") as f:
            self.bytes = f.read()
        self.at = 0
        magic, version, n_tensors, n_pairs = self.take("<4sIQQ")
        assert magic == b"GGUF" and version in (2, 3)
        for _ in range(n_pairs):
            self.string()
            self.value(self.take("<I")[0])
        tensors = [self.tensor() for _ in range(n_tensors)]
        self.tensors = [(name, dtype, shape, up(self.at) + offset, size)
                        for name, dtype, shape, offset, size in tensors]

    def take(self, form):
        values = struct.unpack_from(form, self.bytes, self.at)
        self.at += struct.calcsize(form)
        return values

    def string(self):
        n = self.take("<Q")[0]
        self.at += n
        return self.bytes[self.at - n:self.at].decode()

    def value(self, number):
        if number == 8:
            return self.string()
        if number == 9:
            of, n = self.take("<IQ")
            return [self.value(of) for _ in range(n)]
        code = next(c for i, c in VALUES.values() if i == number)
        return self.take("<" + code)[0]

    def tensor(self):
        name = self.string()
        dims = [self.take("<Q")[0] for _ in range(self.take("<I")[0])]
        number, offset = self.take("<IQ")
        dtype = next(t for t, row in TYPES.items() if row[0] == number)
        return name, dtype, dims[::-1], offset, size_of(dtype, dims)


def show(paths):
    for path in paths:
        for name, dtype, shape, at, n in Reader(path).tensors:
            print(name, dtype, shape, os.path.basename(path), at, n, sep="\t")


def sums(paths):
    lines = []
    for path in paths:
        reader = Reader(path)
        for name, _, _, at, n in reader.tensors:
            digest = hashlib.sha256(reader.bytes[at:at + n]).hexdigest()
            lines.append("%s  %s" % (digest, name))
    print("\n".join(sorted(lines, key=lambda line: line[66:])))


def values():
    json.dump({key: "-Infinity" if value == float("-inf") else value
               for key, _, value in PAIRS}, sys.stdout)


if __name__ == "__main__":
    {"write": write, "values": values, "list": lambda *p: show(p),
     "sums": lambda *p: sums(p)}[sys.argv[1]](*sys.argv[2:])
