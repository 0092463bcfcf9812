# SPDX-License-Identifier: MIT
"""Compares weir convert with the reference; prints TAP. In an empty folder.

A model of Hugging Face becomes GGUF, and GGUF becomes a model of Hugging Face:
each tensor has the bytes that the other writer gives it, weir run writes the same
greedy text for both, and back again the files are those of the beginning.
"""
import json
import os
import subprocess

import gguf
import numpy

try:
    import tokenizers
except ImportError:
    tokenizers = None

from harness import Wrong, main
from models import (ATTENTION, LINEAR, LLAMA3, MISTRAL, QWEN2, QWEN3, YARN,
                    shape, write_gguf, write_hf)
from vocabularies import ByteLevel, SentencePiece

N = 40
SP, BYTES = SentencePiece(), ByteLevel()


def weir(*args, status=0):
    done = subprocess.run(["weir", *args], stdin=subprocess.DEVNULL,
                          capture_output=True, check=False)
    if done.returncode != status:
        raise Wrong(f"weir {' '.join(args)}: status {done.returncode}, "
                    f"{done.stderr.decode()}")
    return done.stdout.decode(), done.stderr.decode()


def same(what, got, want):
    if got != want:
        raise Wrong(f"{what}: {got}, not {want}")


def refused(part, *args):
    err = weir("convert", *args, status=1)[1]
    if part not in err:
        raise Wrong(f"{err!r} has no {part!r}")


def text(path, vocabulary):
    prompt = "the and" if vocabulary is SP else " the and"
    out = json.loads(weir("run", path, "--prompt", prompt, "-n", str(N),
                          "--temp", "0", "--json")[0])
    return out["prompt_tokens"], out["tokens"], out["text"]


def tensors(path):
    """{name: (type, shape, bytes)} as the package gguf reads them."""
    return {t.name: (t.tensor_type, t.shape.tolist(), t.data.tobytes())
            for t in gguf.GGUFReader(path).tensors}


def values(path):
    return {name: field.contents()
            for name, field in gguf.GGUFReader(path).fields.items()
            if not name.startswith("GGUF.")}


def add_words(vocabulary, folder):
    if vocabulary is SP:
        vocabulary.write_model(folder)
    else:
        vocabulary.write_json(folder)


def to_gguf(vocabulary, changed, dtype, parts):
    def test():
        s = shape(vocabulary=len(vocabulary.tokens), **changed)
        write_hf("hf", s, dtype=dtype, parts=parts)
        add_words(vocabulary, "hf")
        weir("convert", "hf", "converted.gguf")
        if dtype == "F32":
            write_gguf("want.gguf", s, add=vocabulary.add_to)
            want, got = tensors("want.gguf"), tensors("converted.gguf")
            same("names", sorted(got), sorted(want))
            for name, value in want.items():
                if name == "rope_freqs.weight":
                    a, b = (numpy.frombuffer(x[2], "<f4")
                            for x in (got[name], value))
                    same("factors", bool(numpy.allclose(a, b, 1e-6)), True)
                elif got[name] != value:
                    raise Wrong(f"{name}: {got[name][:2]}, not {value[:2]}, "
                                "or other bytes")
        same("text", text("converted.gguf", vocabulary), text("hf", vocabulary))
    return test


def quantised(dtype):
    def test():
        s = shape(vocabulary=len(BYTES.tokens), embedding=256, head=64)
        write_hf("hf", s)
        add_words(BYTES, "hf")
        weir("convert", "hf", "plain.gguf")
        weir("convert", "hf", "q.gguf", "--dtype", dtype)
        weir("convert", "plain.gguf", "q2.gguf", "--dtype", dtype)
        kind = gguf.GGMLQuantizationType[dtype.upper()]
        same("tensors", tensors("q.gguf"), tensors("q2.gguf"))
        same("dtype", tensors("q.gguf")["blk.0.attn_q.weight"][0], kind)
        same("norms", tensors("q.gguf")["output_norm.weight"][0],
             gguf.GGMLQuantizationType.F32)
        same("type of the file", values("q.gguf")["general.file_type"],
             int(gguf.LlamaFileType["MOSTLY_" + dtype.upper()]))
        text("q.gguf", BYTES)
    return test


def hf_tensors(folder):
    """{name: (dtype, shape, digest)} of a folder as weir loads it."""
    loaded = json.loads(weir("load", folder, "--json", "--digest=sha256")[0])
    return {t["name"]: (t["dtype"], t["shape"], t["digest"])
            for t in loaded["tensors"]}


def from_gguf(vocabulary, changed):
    def test():
        s = shape(vocabulary=len(vocabulary.tokens), **changed)
        write_hf("hf", s)
        write_gguf("m.gguf", s, add=vocabulary.add_to)
        weir("convert", "m.gguf", "back/")
        want, got = hf_tensors("hf"), hf_tensors("back")
        same("names", sorted(got), sorted(want))
        for name, value in want.items():
            same(name, got[name], value)
        same("text", text("back", vocabulary), text("m.gguf", vocabulary))
        same("files", sorted(os.listdir("back")),
             ["config.json", "model.safetensors", "tokenizer.json",
              "tokenizer_config.json"])
    return test


def there_and_back(dtype, option):
    def test():
        write_hf("hf", shape(vocabulary=len(BYTES.tokens)), dtype=dtype,
                 config={"bos_token_id": 0, "eos_token_id": [1, 2]})
        add_words(BYTES, "hf")
        weir("convert", "hf", "m.gguf")
        weir("convert", "m.gguf", "back/", *option)
        same("tensors", hf_tensors("back"), hf_tensors("hf"))
        weir("convert", "back", "q.gguf")
        same("tensors of GGUF", tensors("q.gguf"), tensors("m.gguf"))
        a, b = values("q.gguf"), values("m.gguf")
        del a["general.name"], b["general.name"]
        same("metadata", a, b)
    return test


def scores_of_merges():
    """tokenizer.json of characters has merges, GGUF gets scores."""
    s = shape(vocabulary=len(SP.tokens))
    write_gguf("m.gguf", s, add=SP.add_to)
    weir("convert", "m.gguf", "back/")
    weir("convert", "back", "q.gguf")
    a, b = values("q.gguf"), values("m.gguf")
    for key in ("tokens", "token_type", "unknown_token_id"):
        same(key, a[f"tokenizer.ggml.{key}"],
             b.get(f"tokenizer.ggml.{key}", 0))
    same("text", text("q.gguf", SP), text("m.gguf", SP))


def other_reader():
    """The package tokenizers reads each tokenizer.json alike."""
    for vocabulary in SP, BYTES:
        write_gguf("m.gguf", shape(vocabulary=len(vocabulary.tokens)),
                   add=vocabulary.add_to)
        weir("convert", "m.gguf", "back/")
        read = tokenizers.Tokenizer.from_file("back/tokenizer.json")
        for words in "the and", "nothing in there, 中é😀", "  a  b":
            got = read.encode(words).ids
            want = json.loads(weir("run", "m.gguf", "--prompt", words, "-n",
                                   "1", "--json")[0])["prompt_tokens"]
            same(words, got, want)
        os.system("rm -rf back")


def folders():
    write_gguf("m.gguf", shape(vocabulary=len(BYTES.tokens)), add=BYTES.add_to)
    weir("convert", "m.gguf", "back/")
    refused("exists already; --force replaces it", "m.gguf", "back")
    weir("convert", "m.gguf", "back", "--force", "--dtype", "bf16",
         "--shard", "20K")
    with open("back/config.json", encoding="utf-8") as f:
        same("dtype", json.load(f)["torch_dtype"], "bfloat16")
    same("one file", os.path.exists("back/model.safetensors"), False)
    text("back", BYTES)
    refused("with --raw give the name of a file", "back", "hf/", "--raw")
    refused("safetensors has no dtype Q8_0", "m.gguf", "hf/", "--dtype", "q8_0")
    same("the folder is gone", os.path.exists("hf"), False)


def write_beside():
    """What is beside the weights, some of which is no part of the model."""
    write_hf("hf", shape(vocabulary=len(BYTES.tokens)), parts=3,
             config={"bos_token_id": 0})
    add_words(BYTES, "hf")
    for name, content in (("generation_config.json", '{"eos_token_id": 1}'),
                          ("chat_template.jinja", "{{ x }}"),
                          ("LICENSE", "free"), ("notes.bin", "x")):
        with open(f"hf/{name}", "w", encoding="utf-8") as f:
            f.write(content)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def hf_to_hf():
    write_beside()
    weir("convert", "hf", "back/", "--dtype", "bf16", "--shard", "60K")
    same("files", sorted(f for f in os.listdir("back") if "model" not in f),
         ["LICENSE", "chat_template.jinja", "config.json",
          "generation_config.json", "tokenizer.json"])
    for name in ("LICENSE", "chat_template.jinja", "generation_config.json",
                 "tokenizer.json"):
        same(name, read(f"back/{name}"), read(f"hf/{name}"))
    same("config.json", read("back/config.json"),
         read("hf/config.json").replace('"torch_dtype": "float32"',
                                        '"torch_dtype": "bfloat16"'))
    same("dtypes", {t[0] for t in hf_tensors("back").values()}, {"BF16"})
    if len([f for f in os.listdir("back") if "-of-" in f]) < 2:
        raise Wrong("there is one shard")
    weir("convert", "hf", "m/")
    same("tensors", hf_tensors("m"), hf_tensors("hf"))
    same("the same config.json", read("m/config.json"), read("hf/config.json"))


def hf_to_hf_wrong():
    write_beside()
    same("a folder", os.path.isdir("hf"), True)
    refused("is an input", "hf", "hf/")
    os.rename("hf/model.safetensors.index.json", "x.json")
    refused("the folder of the model itself",
            "hf/model-00001-of-00003.safetensors", "hf/")
    os.rename("x.json", "hf/model.safetensors.index.json")
    refused("--slice needs --raw", "hf", "back/", "--slice", "*:0:0+1")
    config = json.loads(read("hf/config.json"))
    config["quantization_config"] = {"quant_method": "gptq"}
    with open("hf/config.json", "w", encoding="utf-8") as f:
        json.dump(config, f)
    refused("the weights are quantised", "hf", "back/", "--dtype", "f16")
    with open("hf/config.json", "w", encoding="utf-8") as f:
        f.write('{"dtype": "float32", ]')
    refused("config.json", "hf", "back/", "--dtype", "f16")
    os.remove("hf/config.json")
    refused("with its config.json becomes a folder", "hf", "back/")
    same("no folder is left", os.path.exists("back"), False)


def keys():
    s = shape(vocabulary=len(BYTES.tokens), rope=LINEAR, kv_heads=1)
    write_hf("hf", s, config={"bos_token_id": 0, "eos_token_id": [1, 2]})
    add_words(BYTES, "hf")
    with open("hf/tokenizer_config.json", "w", encoding="utf-8") as f:
        json.dump({"chat_template": "{{ 'x' }}", "unk_token": None,
                   "eos_token": {"content": BYTES.names[2], "special": True},
                   "pad_token": BYTES.names[0]}, f)
    weir("convert", "hf", "m.gguf")
    got = values("m.gguf")
    for key, want in {
            "general.architecture": "llama", "general.name": "hf",
            "general.file_type": 0, "general.quantization_version": 2,
            "general.size_label": "117K", "llama.block_count": 2,
            "llama.attention.head_count_kv": 1, "llama.vocab_size": s.vocabulary,
            "llama.rope.scaling.type": "linear",
            "llama.rope.scaling.factor": 4.0,
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": BYTES.names,
            "tokenizer.ggml.merges": [" ".join(p) for p in BYTES.merges],
            "tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 2,
            "tokenizer.ggml.eot_token_id": 1,
            "tokenizer.ggml.padding_token_id": 0,
            "tokenizer.ggml.add_bos_token": True,
            "tokenizer.chat_template": "{{ 'x' }}"}.items():
        same(key, got.get(key), want)


def padded():
    write_hf("hf", shape(vocabulary=len(BYTES.tokens) + 3))
    add_words(BYTES, "hf")
    weir("convert", "hf", "m.gguf")
    got = values("m.gguf")
    n = len(BYTES.tokens)
    same("tokens", got["tokenizer.ggml.tokens"][n:],
         [f"[PAD{i}]" for i in range(n, n + 3)])
    same("types", got["tokenizer.ggml.token_type"][n:], [5] * 3)


def names_and_raw():
    write_hf("hf", shape(vocabulary=len(BYTES.tokens)))
    add_words(BYTES, "hf")
    weir("convert", "hf", "raw.gguf", "--raw")
    same("a name", "model.norm.weight" in tensors("raw.gguf"), True)
    refused("--slice needs --raw", "hf", "m.gguf", "--slice", "*:0:0+1")


def wrong():
    write_hf("hf", shape(vocabulary=len(BYTES.tokens)),
             config={"model_type": "gpt_neox"})
    refused("model_type is 'gpt_neox'", "hf", "m.gguf")
    same("files", [f for f in os.listdir() if "gguf" in f], [])


TESTS = [(f"{name}: the GGUF file has the tensors and the text of the model",
          to_gguf(vocabulary, changed, dtype, parts))
         for name, vocabulary, changed, dtype, parts in (
             ("Llama, byte-level BPE", BYTES, {}, "F32", 1),
             ("Llama, SentencePiece", SP, {}, "F32", 1),
             ("Llama of BF16 in shards", BYTES, {}, "BF16", 3),
             ("Llama of F16, tied", SP, {"tied": True}, "F16", 2),
             ("Llama with biases", BYTES,
              {"biases": (*ATTENTION, "ffn_gate", "ffn_up", "ffn_down")},
              "F32", 1),
             ("Llama 3's scaling", BYTES, {"rope": LLAMA3}, "F32", 1),
             ("linear scaling", BYTES, {"rope": LINEAR}, "F32", 1),
             ("YaRN", BYTES, {"rope": YARN}, "F32", 1),
             ("heads of another length", SP, {"head": 24}, "F32", 1),
             ("Mistral", SP, MISTRAL, "F32", 1),
             ("Qwen2", BYTES, QWEN2, "F32", 1),
             ("Qwen3", BYTES, QWEN3, "F32", 1))]
TESTS += [(f"weights become {dtype}", quantised(dtype))
          for dtype in ("q8_0", "q4_0", "f16", "bf16")]
TESTS += [
    ("keys have the names and types of llama.cpp's converter", keys),
    ("ids without a token are unused tokens", padded),
    ("--raw keeps the names of the tensors", names_and_raw),
    *((f"{name}: GGUF becomes files with the same tensors and text",
       from_gguf(vocabulary, changed)) for name, vocabulary, changed in (
           ("Llama, byte-level BPE", BYTES, {}),
           ("Llama, SentencePiece", SP, {}),
           ("tied", SP, {"tied": True}),
           ("Llama with biases", BYTES,
            {"biases": (*ATTENTION, "ffn_gate", "ffn_up", "ffn_down")}),
           ("Llama 3's scaling", BYTES, {"rope": LLAMA3}),
           ("linear scaling", BYTES, {"rope": LINEAR}),
           ("YaRN", BYTES, {"rope": YARN}),
           ("heads of another length", SP, {"head": 24}),
           ("Qwen2", BYTES, QWEN2), ("Qwen3", BYTES, QWEN3))),
    *((f"{dtype}: there and back the model is the same",
       there_and_back(dtype, option)) for dtype, option in (
           ("F32", ()), ("BF16", ("--dtype", "bf16")),
           ("F16", ("--dtype", "f16")))),
    ("a list of merges becomes scores that merge alike", scores_of_merges),
    ("the package tokenizers encodes alike", other_reader) if tokenizers else
    ("no package tokenizers", None),
    ("a folder is replaced only by force, and removed if it stays empty",
     folders),
    ("a model of Hugging Face in another folder keeps the files beside its "
     "weights, with their new dtype", hf_to_hf),
    ("a folder is refused that is the model's own, or has no config.json, or "
     "weights that --dtype cannot convert", hf_to_hf_wrong),
    ("another architecture is refused, and nothing is written", wrong)]

if __name__ == "__main__":
    main(TESTS, "hf", "back", "m", "x.json", "m.gguf", "q.gguf", "q2.gguf", "raw.gguf",
         "plain.gguf", "converted.gguf", "want.gguf")
