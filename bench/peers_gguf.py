# SPDX-License-Identifier: MIT
"""peers_gguf.py OUT [tiny] [TYPE]: a GGUF file that llama.cpp loads.

Run by the Python that has the package gguf, which writes the file: the tensors
of TinyLlama 1.1B (tiny: of a thousandth) in TYPE (BF16, F16, Q8_0 or Q4_0) and
F32, with random numbers of the size that weights have, the keys that the
architecture needs, and no vocabulary.
"""
import math
import os
import sys

import numpy
from gguf import GGML_QUANT_SIZES, GGUFWriter
from gguf import GGMLQuantizationType as Type

# Bits of a float that are random, and the others: an exponent. Bytes of a block's
# F16 scale: such that a block has about the same numbers.
FLOATS = {Type.F32: ("<u4", 0x007fffff, 0x3f000000),
          Type.F16: ("<u2", 0x83ff, 0x2400), Type.BF16: ("<u2", 0x807f, 0x3c80)}
SCALES = {Type.Q8_0: 3e-4, Type.Q4_0: 5e-3}


class Shape:
    def __init__(self, tiny):
        self.embedding, self.layers, self.inner, self.heads, self.kv, \
            self.vocabulary = ((64, 2, 192, 4, 2, 320) if tiny else
                               (2048, 22, 5632, 32, 4, 32000))

    def tensors(self):
        """Names, with their rows and columns; None: one dimension, F32."""
        kv = self.embedding // self.heads * self.kv
        yield "token_embd.weight", self.vocabulary, self.embedding
        for i in range(self.layers):
            for name, rows, columns in (
                    ("attn_norm", None, self.embedding),
                    ("attn_q", self.embedding, self.embedding),
                    ("attn_k", kv, self.embedding),
                    ("attn_v", kv, self.embedding),
                    ("attn_output", self.embedding, self.embedding),
                    ("ffn_norm", None, self.embedding),
                    ("ffn_gate", self.inner, self.embedding),
                    ("ffn_up", self.inner, self.embedding),
                    ("ffn_down", self.embedding, self.inner)):
                yield f"blk.{i}.{name}.weight", rows, columns
        yield "output_norm.weight", None, self.embedding
        yield "output.weight", self.vocabulary, self.embedding


def put_keys(out, shape):
    out.add_context_length(2048)
    out.add_embedding_length(shape.embedding)
    out.add_block_count(shape.layers)
    out.add_feed_forward_length(shape.inner)
    out.add_rope_dimension_count(shape.embedding // shape.heads)
    out.add_head_count(shape.heads)
    out.add_head_count_kv(shape.kv)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_vocab_size(shape.vocabulary)
    out.add_tokenizer_model("no_vocab")


def size_of(kind, n):
    block, size = GGML_QUANT_SIZES[kind]
    return n // block * size


def fill(random, kind, n):
    """@n random elements as bytes."""
    data = numpy.frombuffer(bytearray(random.bytes(size_of(kind, n))),
                            numpy.uint8)
    if kind in FLOATS:
        dtype, mask, exponent = FLOATS[kind]
        numbers = data.view(dtype)
        numbers &= mask
        numbers |= exponent
    else:
        blocks = data.reshape(-1, GGML_QUANT_SIZES[kind][1])
        blocks[:, :2] = numpy.frombuffer(
            numpy.float16(SCALES[kind]).tobytes(), numpy.uint8)
    return data


def write(path, shape, kind):
    out = GGUFWriter(path, "llama")
    put_keys(out, shape)
    tensors = [(name, [columns], Type.F32) if rows is None else
               (name, [rows, columns], kind)
               for name, rows, columns in shape.tensors()]
    for name, dims, own in tensors:
        out.add_tensor_info(name, dims, numpy.dtype("float32"),
                            size_of(own, math.prod(dims)), own)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_ti_data_to_file()
    random = numpy.random.default_rng(1)
    for _, dims, own in tensors:
        out.write_tensor_data(fill(random, own, math.prod(dims)))
    out.close()


def main():
    part = sys.argv[1] + ".part"
    kinds = [word for word in sys.argv[2:] if word != "tiny"]
    write(part, Shape("tiny" in sys.argv[2:]),
          Type[kinds[0] if kinds else "BF16"])
    with open(part, "rb") as f:
        os.fsync(f.fileno())
    os.rename(part, sys.argv[1])


if __name__ == "__main__":
    main()
