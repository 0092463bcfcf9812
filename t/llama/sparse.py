# SPDX-License-Identifier: MIT
"""Writes GGUF files of models whose weights are holes of the file, all 0.

sparse.py PATH [NAME=VALUE...]  changes a hyperparameter; drop=TENSOR leaves it out,
arch=qwen2 adds the biases of that family, arch=qwen3 its norms
"""
import struct
import sys

TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q8_0": (8, 32, 34)}
ALIGN = 32


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def pairs(s):
    yield "general.architecture", 8, text(s["arch"])
    for key, name in (("context_length", "context"),
                      ("embedding_length", "embedding"),
                      ("block_count", "layers"),
                      ("feed_forward_length", "inner"),
                      ("attention.head_count", "heads"),
                      ("attention.head_count_kv", "kv_heads"),
                      ("vocab_size", "vocabulary")):
        yield f"{s['arch']}.{key}", 4, struct.pack("<I", s[name])
    yield (s["arch"] + ".attention.layer_norm_rms_epsilon", 6,
           struct.pack("<f", 1e-5))


def tensors(s):
    e, inner = s["embedding"], s["inner"]
    kv = e // s["heads"] * s["kv_heads"]
    yield "token_embd.weight", [s["vocabulary"], e]
    yield "output_norm.weight", [e]
    yield "output.weight", [s["vocabulary"], e]
    for i in range(s["layers"]):
        for name, shape in (("attn_norm", [e]), ("attn_q", [e, e]),
                            ("attn_k", [kv, e]), ("attn_v", [kv, e]),
                            ("attn_output", [e, e]), ("ffn_norm", [e]),
                            ("ffn_gate", [inner, e]), ("ffn_up", [inner, e]),
                            ("ffn_down", [e, inner])):
            yield f"blk.{i}.{name}.weight", shape
        for name, n in {"qwen2": (("q.bias", e), ("k.bias", kv),
                                  ("v.bias", kv)),
                        "qwen3": (("q_norm.weight", e // s["heads"]),
                                  ("k_norm.weight", e // s["heads"]))
                        }.get(s["arch"], ()):
            yield f"blk.{i}.attn_{name}", [n]


def write(path, s):
    listed, at = b"", 0
    all_pairs = list(pairs(s))
    all_tensors = [t for t in tensors(s) if t[0] != s["drop"]]
    for name, shape in all_tensors:
        kind = "Q8_0" if s["mixed"] and ".1.ffn_down" in name else "F16"
        number, block, size = TYPES["F32" if len(shape) == 1 else kind]
        listed += text(name) + struct.pack("<I", len(shape)) + struct.pack(
            f"<{len(shape)}Q", *reversed(shape)) + struct.pack(
                "<IQ", number, at)
        for n in shape:
            size *= n
        at = -(-(at + size // block) // ALIGN) * ALIGN
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(all_tensors), len(all_pairs))
    for key, kind, value in all_pairs:
        head += text(key) + struct.pack("<I", kind) + value
    head += listed
    head += bytes(-len(head) % ALIGN)
    with open(path, "wb") as f:
        f.write(head)
        f.truncate(len(head) + at)


def main():
    s = {"arch": "llama", "layers": 5, "embedding": 64, "inner": 160,
         "heads": 4, "kv_heads": 2, "vocabulary": 96, "context": 2048,
         "mixed": 0, "drop": ""}
    for arg in sys.argv[2:]:
        name, value = arg.split("=")
        s[name] = value if name in ("arch", "drop") else int(value)
    write(sys.argv[1], s)


main()
