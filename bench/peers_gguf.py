# SPDX-License-Identifier: MIT
"""peers_gguf.py OUT [tiny]: a GGUF file that llama.cpp loads.

Run by the Python that has the package gguf, which writes the file: the tensors
of TinyLlama 1.1B (tiny: of a thousandth) in BF16 and F32, with random bytes,
the keys that the architecture needs, and no vocabulary.
"""
import os
import sys

import numpy
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter


class Shape:
    def __init__(self, tiny):
        self.embedding, self.layers, self.inner, self.heads, self.kv, \
            self.vocabulary = ((64, 2, 176, 4, 2, 320) if tiny else
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


def write(path, shape):
    out = GGUFWriter(path, "llama")
    put_keys(out, shape)
    for name, rows, columns in shape.tensors():
        if rows is None:
            out.add_tensor_info(name, [columns], numpy.dtype("float32"),
                                columns * 4, Type.F32)
        else:
            out.add_tensor_info(name, [rows, columns], numpy.dtype("uint16"),
                                rows * columns * 2, Type.BF16)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_ti_data_to_file()
    random = numpy.random.default_rng(1)
    for _, rows, columns in shape.tensors():
        n = columns * 4 if rows is None else rows * columns * 2
        out.write_tensor_data(random.integers(0, 256, n, dtype=numpy.uint8))
    out.close()


def main():
    part = sys.argv[1] + ".part"
    write(part, Shape("tiny" in sys.argv[2:]))
    with open(part, "rb") as f:
        os.fsync(f.fileno())
    os.rename(part, sys.argv[1])


if __name__ == "__main__":
    main()
