# SPDX-License-Identifier: MIT
"""A small reader of safetensors that shares no code with the library.

check PATH    print each violation of the format's rules
list PATH     NAME, DTYPE, SHAPE, FILE, OFFSET, BYTES of each tensor, with tabs
sums PATH     MD5 and name of each tensor, sorted by name
shapes PRESET FACTOR
              NAME, DTYPE, SHAPE of each tensor of an architecture, scaled
put PATH      write a file with the header on stdin, and --data BYTES
"""
import glob
import hashlib
import json
import math
import os
import struct
import sys

BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8,
        "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "I16": 16, "U16": 16,
        "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "F64": 64,
        "I64": 64, "U64": 64, "C64": 64}


def read_header(path):
    """The header of a file and the offset at which its data begins."""
    with open(path, "rb") as f:
        length = struct.unpack("<Q", f.read(8))[0]
        return json.loads(f.read(length)), 8 + length


def files_of(path):
    if not os.path.isdir(path):
        return [path]
    index = os.path.join(path, "model.safetensors.index.json")
    if not os.path.exists(index):
        return [os.path.join(path, "model.safetensors")]
    with open(index) as f:
        names = set(json.load(f)["weight_map"].values())
    return [os.path.join(path, name) for name in sorted(names)]


def tensors_of(path):
    """(name, dtype, shape, file, offset, bytes) by file and offset."""
    for file in files_of(path):
        header, base = read_header(file)
        header.pop("__metadata__", None)
        for name, entry in sorted(header.items(),
                                  key=lambda kv: kv[1]["data_offsets"]):
            begin, end = entry["data_offsets"]
            yield (name, entry["dtype"], entry["shape"], file, base + begin,
                   end - begin)


def check_file(path):
    header, base = read_header(path)
    metadata = header.pop("__metadata__")
    assert metadata == {"format": "pt"}, metadata
    assert base % 8 == 0, f"data begins at {base}"
    with open(path, "rb") as f:
        text = f.read(base)[8:]
    assert text[:1] == b"{" and text.rstrip(b" ")[-1:] == b"}"
    end, order = 0, []
    for name, e in header.items():
        begin = e["data_offsets"][0]
        assert begin == end, f"{name} begins at {begin}, not at {end}"
        bits = math.prod(e["shape"]) * BITS[e["dtype"]]
        end = e["data_offsets"][1]
        assert bits % 8 == 0 and end - begin == bits // 8, name
        order.append((-BITS[e["dtype"]], name))
    assert order == sorted(order), "wide elements first, then by name"
    assert base + end == os.path.getsize(path), "size of the file"
    return header


def check(path):
    files = files_of(path)
    names = {}
    for file in files:
        for name in check_file(file):
            assert name not in names, name
            names[name] = os.path.basename(file)
    if len(files) > 1:
        with open(os.path.join(path, "model.safetensors.index.json")) as f:
            index = json.load(f)
        assert index["weight_map"] == names, "weight_map"
        assert index["metadata"]["total_size"] == sum(
            t[5] for t in tensors_of(path)), "total_size"
        want = [f"model-{i + 1:05}-of-{len(files):05}.safetensors"
                for i in range(len(files))]
        assert [os.path.basename(f) for f in files] == want, files
        left = glob.glob(os.path.join(path, "*")) + glob.glob(
            os.path.join(path, ".*"))
        assert len(left) == len(files) + 1, left


def layer_shapes(prefix, hidden, q, kv, head, inner, experts):
    """(name, shape) of the tensors of one layer of a decoder."""
    attention = prefix + ".self_attn"
    yield f"{attention}.q_proj", [q, hidden]
    yield f"{attention}.k_proj", [kv, hidden]
    yield f"{attention}.v_proj", [kv, hidden]
    yield f"{attention}.o_proj", [hidden, q]
    if head:
        yield f"{attention}.q_norm", [head]
        yield f"{attention}.k_norm", [head]
    yield f"{prefix}.input_layernorm", [hidden]
    yield f"{prefix}.post_attention_layernorm", [hidden]
    if experts:
        yield f"{prefix}.mlp.gate", [experts, hidden]
    for mlp in [f"mlp.experts.{i}" for i in range(experts)] or ["mlp"]:
        yield f"{prefix}.{mlp}.gate_proj", [inner, hidden]
        yield f"{prefix}.{mlp}.up_proj", [inner, hidden]
        yield f"{prefix}.{mlp}.down_proj", [hidden, inner]


# layers, words, then what layer_shapes() takes; parameters in all
ARCHITECTURES = {
    "tinyllama-1.1b": (22, 32000, (2048, 2048, 256, 0, 5632, 0), 1100048384),
    "llama-3.1-8b": (32, 128256, (4096, 4096, 1024, 0, 14336, 0), 8030261248),
    "qwen3-30b-a3b": (48, 151936, (2048, 4096, 512, 128, 768, 128),
                      30532122624),
}


def shapes(preset, factor):
    layers, words, sizes, parameters = ARCHITECTURES[preset]
    found = [("model.embed_tokens", [words, sizes[0]]),
             ("model.norm", [sizes[0]]), ("lm_head", [words, sizes[0]])]
    for layer in range(layers):
        found.extend(layer_shapes(f"model.layers.{layer}", *sizes))
    assert sum(math.prod(shape) for _, shape in found) == parameters
    for name, (first, *rest) in found:
        print(f"{name}.weight", "BF16",
              [math.ceil(first * float(factor)), *rest], sep="\t")


def put(path, *options):
    data = int(options[1]) if options else 0
    header = sys.stdin.buffer.read()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header)
        f.write(bytes(i * 7 & 0xff for i in range(data)))


def sums(path):
    for name, _, _, file, offset, n in sorted(tensors_of(path)):
        with open(file, "rb") as f:
            f.seek(offset)
            print(hashlib.md5(f.read(n)).hexdigest(), name)


def main(command, *args):
    if command == "list":
        for t in tensors_of(*args):
            print(*t, sep="\t")
    else:
        {"check": check, "sums": sums, "shapes": shapes,
         "put": put}[command](*args)


main(*sys.argv[1:])
