# SPDX-License-Identifier: MIT
"""Small tokenizers, made by hand, in the forms in which models have them.

Each has .tokens, the bytes of each token (control tokens have none); .first, the
same for a token that begins a text; .ids(text) of the few texts that t/llama/run.py
uses; .bos and .eos.
"""
import json
import os
import struct

from gguf import TokenType

MARK = "\u2581"
LETTERS = "abcdefghijklmnopqrstuvwxyz.,é中😀"
# "the" with the space before it, which is merged in these steps.
MERGES = [" t", "he", " the", "in", " a", "nd", " and", "er", "on", "ing"]


# SentencePiece: merges by score, bytes for what has no token.

class SentencePiece:
    """Of GGUF, and tokenizer.model."""
    bos, eos = 1, 2

    def __init__(self):
        pieces = [("<unk>", TokenType.UNKNOWN), ("<s>", TokenType.CONTROL),
                  ("</s>", TokenType.CONTROL)]
        pieces += [(f"<0x{i:02X}>", TokenType.BYTE) for i in range(256)]
        pieces += [(text.replace(" ", MARK), TokenType.NORMAL)
                   for text in [*MERGES, " ", *LETTERS]]
        pieces += [("<|eot_id|>", TokenType.CONTROL)]
        self.pieces = pieces
        self.index = {text: i for i, (text, _) in enumerate(pieces)}
        self.tokens = [self.bytes_of(*piece) for piece in pieces]
        self.first = [t[1:] if t[:1] == b" " else t for t in self.tokens]

    @staticmethod
    def bytes_of(text, kind):
        if kind in (TokenType.UNKNOWN, TokenType.CONTROL):
            return b""
        if kind == TokenType.BYTE:
            return bytes([int(text[3:5], 16)])
        return text.replace(MARK, " ").encode()

    def ids(self, *pieces):
        return [self.bos] + [self.index[p.replace(" ", MARK)] for p in pieces]

    def scores(self):
        return [-float(i) for i in range(len(self.pieces))]

    def add_to(self, out, **ids):
        """@out: a GGUFWriter; @ids: eos, eot, eom."""
        out.add_tokenizer_model("llama")
        out.add_token_list([text for text, _ in self.pieces])
        out.add_token_scores(self.scores())
        out.add_token_types([kind for _, kind in self.pieces])
        add_ids(out, {"bos": self.bos, "eos": self.eos, **ids})

    def write_model(self, folder):
        """tokenizer.model, by hand: protocol buffers."""
        data = b""
        for (text, kind), score in zip(self.pieces, self.scores()):
            data += field(1, field(1, text.encode()) + b"\x15" +
                          struct.pack("<f", score) + varint(3, kind))
        data += field(2, varint(3, 2) + varint(41, self.bos) +
                      varint(42, self.eos))
        data += field(3, varint(3, 1) + varint(4, 0) + varint(5, 1))
        with open(os.path.join(folder, "tokenizer.model"), "wb") as f:
            f.write(data)


def number(n):
    out = b""
    while n >= 128:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def varint(tag, n):
    return number(tag << 3) + number(int(n))


def field(tag, data):
    return number(tag << 3 | 2) + number(len(data)) + data


def add_ids(out, ids):
    for name, value in ids.items():
        if value is not None:
            out.add_uint32(f"tokenizer.ggml.{name}_token_id", value)


# Byte-level BPE.

def byte_letters():
    """The character that stands for each byte."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, more = {}, 256
    for b in range(256):
        letters[b] = chr(b if b in shown else more)
        more += b not in shown
    return letters


class ByteLevel:
    """Of GGUF, and tokenizer.json."""
    bos, eos = 0, 1

    def __init__(self, *control):
        letters = byte_letters()

        def written(text):
            return "".join(letters[b] for b in text.encode())
        self.control = control or ("<|begin|>", "<|end|>", "<|eot_id|>")
        single = [bytes([b]) for b in range(256)]
        merged = [text.encode() for text in MERGES]
        self.merges = [[written(m) for m in pair] for pair in (
            (" ", "t"), ("h", "e"), (" t", "he"), ("i", "n"), (" ", "a"),
            ("n", "d"), (" a", "nd"), ("e", "r"), ("o", "n"), ("in", "g"))]
        self.tokens = [b""] * len(self.control) + single + merged
        self.first = self.tokens
        self.names = [*self.control, *(
            "".join(letters[b] for b in t) for t in single + merged)]

    def ids(self, *texts):
        return [self.bos] + [self.tokens.index(t.encode()) for t in texts]

    def add_to(self, out, **ids):
        out.add_tokenizer_model("gpt2")
        out.add_tokenizer_pre("gpt-2")
        out.add_token_list(self.names)
        out.add_token_types([TokenType.CONTROL if t in self.control else
                             TokenType.NORMAL for t in self.names])
        out.add_token_merges([" ".join(pair) for pair in self.merges])
        out.add_add_bos_token(True)
        add_ids(out, {"bos": self.bos, "eos": self.eos, **ids})

    def write_json(self, folder):
        begin = self.control[0]
        content = {
            "version": "1.0", "normalizer": None,
            "added_tokens": [
                {"id": i, "content": name, "single_word": False,
                 "lstrip": False, "rstrip": False, "normalized": False,
                 "special": True} for i, name in enumerate(self.control)],
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False,
                              "trim_offsets": True, "use_regex": True},
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": begin, "type_id": 0}},
                           {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [],
                "special_tokens": {begin: {"id": begin, "ids": [self.bos],
                                           "tokens": [begin]}}},
            "decoder": {"type": "ByteLevel", "add_prefix_space": False,
                        "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "fuse_unk": False, "byte_fallback": False,
                      "vocab": {name: i for i, name in enumerate(self.names)},
                      "merges": self.merges}}
        with open(os.path.join(folder, "tokenizer.json"), "w",
                  encoding="utf-8") as f:
            json.dump(content, f)
