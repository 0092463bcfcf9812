# SPDX-License-Identifier: MIT
"""Models that the package gguf writes, for main.py."""
import logging
import math
import random
import struct
from types import SimpleNamespace

import numpy
from gguf import (GGML_QUANT_SIZES, GGMLQuantizationType, GGUFReader,
                  GGUFValueType, GGUFWriter, quants)

logging.disable(logging.WARNING)  # of names that are replaced

# The package still gives a block of Q8_1 40 bytes, ggml has 36.
SIZES = {kind: size for kind, size in GGML_QUANT_SIZES.items()
         if kind != GGMLQuantizationType.Q8_1}
ODD_NAMES = [
    " ", "a", "a.b", "A", 'quo"te', "back\\slash", "../up", "/x", "tab\there",
    "line\nfeed", "nul\0inside", "esc\x1b[31m", "\u00fcml\u00e4ut", "e\u0301",
    "\u00e9", "\u4f60\u597d", "\U0001f600", "\u202eleft", "\uffff", "x" * 63,
]
INTEGERS = {"u8": (0, 2**8 - 1), "i8": (-2**7, 2**7 - 1),
            "u16": (0, 2**16 - 1), "i16": (-2**15, 2**15 - 1),
            "u32": (0, 2**32 - 1), "i32": (-2**31, 2**31 - 1),
            "u64": (0, 2**64 - 1), "i64": (-2**63, 2**63 - 1)}
TYPES = {"u8": "UINT8", "i8": "INT8", "u16": "UINT16", "i16": "INT16",
         "u32": "UINT32", "i32": "INT32", "u64": "UINT64", "i64": "INT64",
         "f32": "FLOAT32", "f64": "FLOAT64", "bool": "BOOL",
         "str": "STRING", "array": "ARRAY"}


class Model:
    """A file that is written, and what weir has to find in it."""

    def __init__(self, path, **options):
        self.path = path
        self.writer = GGUFWriter(path, "test", **options)
        self.tensors = {}
        self.metadata = {"general.architecture": "test"}
        self.types = {"general.architecture": "str"}

    def tensor(self, name, kind, shape):
        """@shape of the elements; random bytes."""
        block, size = SIZES[kind]
        stored = [*shape[:-1], shape[-1] // block * size] if shape else [size]
        data = random.Random(name).randbytes(math.prod(stored))
        array = numpy.frombuffer(data, numpy.uint8).reshape(stored)
        self.writer.add_tensor_info(name, array.shape, array.dtype,
                                    array.nbytes, raw_dtype=kind)
        info = self.writer.tensors[-1][name]
        info.shape, info.tensor = tuple(shape), array
        self.tensors[name] = kind.name, shape, data

    def value(self, key, kind, value, of=None):
        self.writer.add_key_value(
            key, value, GGUFValueType[TYPES[kind]],
            GGUFValueType[TYPES[of]] if of else None)
        self.metadata[key] = value
        self.types[key] = f"[{of}]" if of else kind

    def save(self):
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()
        return SimpleNamespace(model=str(self.path), tensors=self.tensors,
                               metadata=self.metadata, types=self.types,
                               warnings=0)


def all_types():
    """a GGUF file of all types that its package knows is loaded"""
    model = Model("types.gguf")
    for kind, (block, _) in SIZES.items():
        for i, shape in enumerate([[block], [3, 2 * block], [2, 1, 3, block],
                                   [0, block], [2, 0, block]]):
            model.tensor(f"{kind.name}.{i}", kind, shape)
        if block == 1:
            model.tensor(f"{kind.name}.scalar", kind, [])
            model.tensor(f"{kind.name}.odd", kind, [7, 5])
    return model.save()


def quantised():
    """GGUF tensors that its package has quantised are loaded"""
    model = Model("quantised.gguf")
    values = numpy.random.default_rng(1).standard_normal((3, 512), "float32")
    for kind in GGMLQuantizationType:
        try:
            array = quants.quantize(values, kind)
        except NotImplementedError:
            continue
        raw = None if array.dtype != numpy.uint8 else kind
        model.writer.add_tensor(kind.name, array, raw_dtype=raw)
        model.tensors[kind.name] = kind.name, values.shape, array.tobytes()
    assert len(model.tensors) > 8
    return model.save()


def bits_of(values, dtype):
    """F32 rounded to @dtype; weir makes each NaN of a block the positive one."""
    nan = numpy.isnan(values)
    with numpy.errstate(over="ignore"):
        if dtype == "f16":
            half = values.astype(numpy.float16).view(numpy.uint16)
            return numpy.where(nan, numpy.uint16(0x7e00), half)
    bits = numpy.where(nan, numpy.uint32(0x7fc00000),
                       values.view(numpy.uint32))
    if dtype == "f32":
        return bits
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)


def dequantised():
    """random GGUF blocks become the F32, F16 and BF16 that its package makes"""
    model = Model("dequantised.gguf")
    case_of = {"f32": {}, "f16": {}, "bf16": {}}
    shape = (64, 1024)
    for kind, (block, size) in SIZES.items():
        stored = numpy.zeros((shape[0], shape[1] // block * size), numpy.uint8)
        try:
            quants.dequantize(stored, kind)
        except NotImplementedError:
            continue
        if block == 1:
            continue
        model.tensor(kind.name, kind, shape)
        stored = numpy.frombuffer(model.tensors[kind.name][2],
                                  numpy.uint8).reshape(stored.shape)
        with numpy.errstate(all="ignore"):
            values = quants.dequantize(stored, kind).astype(numpy.float32)
        for dtype, tensors in case_of.items():
            tensors[kind.name] = (dtype.upper(), shape,
                                  bits_of(values, dtype).tobytes())
    assert len(model.tensors) > 20
    case = model.save()
    case.converted = case_of
    return case


def odd_names():
    """names and metadata of every kind of character are read from GGUF"""
    model = Model("names.gguf")
    for i, name in enumerate(ODD_NAMES):
        model.tensor(name, GGMLQuantizationType.I8, [i])
        model.value(name, "str", ODD_NAMES[-i])
    model.value("empty", "str", "")
    model.value("long", "str", "y" * 100000)
    return model.save()


def all_values():
    """GGUF metadata of all types are read"""
    model = Model("values.gguf")
    for kind, (low, high) in INTEGERS.items():
        model.value(f"{kind}.low", kind, low)
        model.value(f"{kind}.high", kind, high)
    for kind in "f32", "f64":
        for i, value in enumerate([0.0, -1.5, 2.0**100, 1 / 3]):
            model.value(f"{kind}.{i}", kind, value)
        for name, value in ("Infinity", math.inf), ("-Infinity", -math.inf), (
                "NaN", math.nan):
            model.value(f"{kind} {name}", kind, value)
            model.metadata[f"{kind} {name}"] = name
    model.value("yes", "bool", True)
    model.value("no", "bool", False)
    return model.save()


def all_arrays():
    """GGUF arrays of all types are read, and arrays of arrays"""
    model = Model("arrays.gguf")
    for kind, (low, high) in INTEGERS.items():
        model.value(f"array.{kind}", "array", [low, 1, high], kind)
    for kind in "f32", "f64":
        model.value(f"array.{kind}", "array", [0.5, -2.0**20], kind)
    model.value("array.bool", "array", [True, False, True], "bool")
    model.value("array.string", "array", ["", "one", "\U0001f600"], "str")
    model.value("array.array", "array", [[1, 2], [3], [4, 5, 6]], "array")
    model.value("array.strings", "array", [["a", ""], ["b"]], "array")
    model.value("array.deep", "array", [[[1], [2, 3]], [[4]]], "array")
    return model.save()


def aligned(alignment):
    def make():
        model = Model(f"align{alignment}.gguf")
        model.writer.add_custom_alignment(alignment)
        model.metadata["general.alignment"] = alignment
        model.types["general.alignment"] = "u32"
        for i in range(12):
            model.tensor(f"t{i}", GGMLQuantizationType.I8, [i * 37])
        case = model.save()
        case.warnings = alignment % 8 != 0
        return case
    make.__doc__ = f"a GGUF file with an alignment of {alignment} is loaded"
    return make


def vocabulary():
    """a GGUF vocabulary of 30000 words is read"""
    n = 30000
    model = Model("vocabulary.gguf")
    model.value("tokenizer.ggml.tokens", "array",
                [f"\u2581w{i}" for i in range(n)], "str")
    model.value("tokenizer.ggml.scores", "array",
                [-float(i) for i in range(n)], "f32")
    model.value("tokenizer.ggml.token_type", "array",
                [i % 7 for i in range(n)], "i32")
    model.value("tokenizer.ggml.merges", "array",
                [f"a{i} b" for i in range(n)], "str")
    model.tensor("t", GGMLQuantizationType.F16, [3])
    return model.save()


def many():
    """3000 GGUF tensors are loaded"""
    sizes = random.Random(3)
    model = Model("many.gguf")
    for i in range(3000):
        model.tensor(f"blk.{i}.w", GGMLQuantizationType.I8,
                     [sizes.randrange(3000)])
    return model.save()


def no_tensors():
    """a GGUF file without tensors has its metadata"""
    model = Model("none.gguf")
    model.value("only", "u32", 7)
    return model.save()


def version_2():
    """a GGUF file of version 2 is loaded"""
    model = Model("version2.gguf")
    model.tensor("t", GGMLQuantizationType.Q8_0, [4, 64])
    case = model.save()
    with open(case.model, "r+b") as f:
        f.seek(4)
        f.write(struct.pack("<I", 2))
    assert GGUFReader(case.model).tensors[0].name == "t"
    return case


def split(**options):
    """Files of up to three tensors each, of which the first is opened."""
    model = Model("split.gguf", split_max_tensors=3, **options)
    for i in range(8):
        model.tensor(f"t{i}", GGMLQuantizationType.Q4_0, [i, 32])
    model.value("split.mine", "str", "in the first file")
    case = model.save()
    n = len(model.writer.tensors)
    case.model = f"split-00001-of-{n:05}.gguf"
    case.metadata |= {"split.no": 0, "split.count": n,
                      "split.tensors.count": len(case.tensors)}
    case.types |= {"split.no": "u16", "split.count": "u16",
                   "split.tensors.count": "i32"}
    return case


def split_files():
    """GGUF files that their writer has split are loaded as one model"""
    return split()


def split_metadata():
    """split GGUF files, of which the first has metadata only, are loaded"""
    return split(small_first_shard=True)


CASES = [all_types, quantised, dequantised, odd_names, all_values, all_arrays,
         *(aligned(n) for n in (1, 8, 64, 4096)), vocabulary, many, no_tensors,
         version_2, split_files, split_metadata]
