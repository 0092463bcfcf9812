# SPDX-License-Identifier: MIT
"""Compares examples/llama, whose model is llama/, with the reference; prints TAP.

main.py PROGRAM, in an empty folder.
"""
import os
import subprocess
import sys

import numpy
from gguf import GGMLQuantizationType as Type
from gguf import GGUFValueType as Value

import refused
import variants
from harness import Wrong, have_kernels, main, stand_in
from models import (ATTENTION, FED, KINDS, LINEAR, LLAMA3, QWEN3, TOKENS, YARN,
                    shape, write_gguf, write_hf)
from reference import Session, nmse, open_model

PROGRAM = sys.argv[1]
F32_ERROR = 1e-9        # sums in another order
CACHE_ERROR = 1e-6      # keys and values rounded to F16
ROUNDED_ERROR = 5e-4    # activations rounded as the weights are


def llama(*args, status=0, before=(), **env):
    done = subprocess.run([*before, PROGRAM, *map(str, args)],
                          stdin=subprocess.DEVNULL, capture_output=True,
                          check=False, env={**os.environ, **env})
    out, err = (x.decode(errors="replace") for x in (done.stdout, done.stderr))
    if done.returncode != status:
        raise Wrong(f"llama {' '.join(map(str, args))}: status "
                    f"{done.returncode}, {err}{out}")
    return out, err


def logits(path, *options, tokens=TOKENS, **how):
    llama("-l", "logits", *options, path, *tokens, **how)
    found = numpy.fromfile("logits", "<f4")
    return found.reshape(len(tokens), -1)


def near(what, got, want, limit):
    if got.shape != want.shape:
        raise Wrong(f"{what}: {got.shape} logits, not {want.shape}")
    error = nmse(got, want)
    if not error <= limit:
        raise Wrong(f"{what}: NMSE {error:.3g}, not {limit:g} or less")
    return error


# Passes of one token, of a few and of all.
WAYS = (("-t", 2), ("-t", 1, "-b", 1), ("-t", 3, "-b", 5))


def as_reference(title, limit, write, *args, options=(), **changed):
    def test():
        path = write(*args, **changed)
        want = Session(open_model(path)).logits(TOKENS)
        for way in WAYS:
            near(f"with {way}", logits(path, *options, *way), want, limit)
    return f"{title}: logits are those of the reference", test


def of_gguf(kind, **write):
    return lambda **changed: write_gguf("m.gguf", shape(**changed), kind,
                                        **write)


def of_hf(dtype, **write):
    return lambda **changed: write_hf("m", shape(**changed), dtype, **write)


def same_as_reference():
    f32 = {"options": ("-c", "f32")}
    for name, write in (("GGUF", of_gguf(Type.F32)),
                        ("safetensors", of_hf("F32"))):
        def model(what, **changed):
            return as_reference(f"{name}, {what}", F32_ERROR, write, **f32,
                                **changed)
        yield model("F32, grouped heads")
        yield model("as many KV heads as heads", kv_heads=4)
        yield model("one KV head, and heads of another length", kv_heads=1,
                    head=24, base=50000.0)
        yield model("linear scaling of RoPE", rope=LINEAR)
        yield model("Llama 3's scaling of RoPE", rope=LLAMA3)
        yield model("YaRN", rope=YARN)
        yield model("the embeddings as output matrix", tied=True)
    for kind in (Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q5_1):
        yield as_reference(f"GGUF, {kind.name}", ROUNDED_ERROR, of_gguf(kind))
    yield as_reference("GGUF, Q4_K with some Q6_K", ROUNDED_ERROR,
                       of_gguf(Type.Q4_K), embedding=256, head=64, inner=256)
    for dtype in ("F16", "BF16"):
        yield as_reference(f"safetensors, {dtype}", ROUNDED_ERROR,
                           of_hf(dtype))
    yield as_reference("GGUF, three files", F32_ERROR,
                       of_gguf(Type.F32, parts=3), **f32)
    yield as_reference("GGUF, integers of 64 bits", F32_ERROR,
                       of_gguf(Type.F32, integer=Value.UINT64), **f32)
    yield as_reference("GGUF, the tokenizer has the number of tokens",
                       F32_ERROR, of_gguf(Type.F32, words=96,
                                          keys={"vocab_size": None}), **f32)
    yield as_reference("GGUF, no number of tokens",
                       F32_ERROR, of_gguf(Type.F32, keys={"vocab_size": None}),
                       **f32)
    yield as_reference("safetensors, rope_parameters instead of rope_scaling",
                       F32_ERROR, of_hf("F32", config={
                           "rope_scaling": None, "rope_theta": None,
                           "rope_parameters": dict(LLAMA3, rope_theta=500.0)}),
                       **f32)
    yield as_reference("safetensors, the older name of a type of scaling",
                       F32_ERROR, of_hf("F32", config={"rope_scaling": {
                           "type": "linear", "factor": 2.0}}), **f32)
    yield as_reference("safetensors, three shards", F32_ERROR,
                       of_hf("F32", parts=3), **f32)
    yield as_reference("keys and values in F16", CACHE_ERROR,
                       of_gguf(Type.F32))


def variants_as_reference():
    f32 = {"options": ("-c", "f32")}
    writers = {"GGUF": of_gguf, "safetensors": of_hf}
    for cases, limit, how in ((variants.EXACT, F32_ERROR, f32),
                              (variants.ROUNDED, ROUNDED_ERROR, {})):
        for title, files, write, changed in cases:
            yield as_reference(f"{files}, {title}", limit,
                               writers[files](**write), **how, **changed)


def generates():
    path = write_gguf("m.gguf", shape())
    want = Session(open_model(path)).greedy(TOKENS[:4], 12)
    out, _ = llama("-c", "f32", "-n", 12, path, *TOKENS[:4])
    if out.split() != [str(token) for token in want]:
        raise Wrong(f"got {out}, want {want}")


# Reads of the file that take long, and that fail, by strace. Those that must not
# wait find nothing in the page cache.

def large():
    """A model that is read in several chunks on each thread."""
    return write_gguf("m.gguf", shape(embedding=256, heads=8, head=32, layers=6,
                                      inner=768))


# LeakSanitizer cannot trace a program that strace traces.
SLOW = {"WEIR_DEBUG": "io=sync", "ASAN_OPTIONS": "detect_leaks=0"}


def strace(fault):
    return ["strace", "-f", "-qq", "-o", "/dev/null", "-P", "m.gguf", "-e",
            "trace=pread64,preadv2", "-e", "inject=preadv2:error=EAGAIN",
            "-e", f"inject=pread64:{fault}"]


def have_strace():
    try:
        return not subprocess.run([*strace("delay_enter=1"), "true"],
                                  capture_output=True,
                                  check=False).returncode
    except OSError:
        return False


def arrives():
    path = large()
    want = Session(open_model(path)).logits(TOKENS)
    for way in WAYS:
        near(f"with {way}", logits(path, "-c", "f32", *way,
                                   before=strace("delay_enter=40000"),
                                   **SLOW), want, F32_ERROR)


def overlaps():
    out, _ = llama("-r", large(), *TOKENS, before=strace("delay_enter=80000"),
                   **SLOW)
    waits = int(out.split(" waits for weights")[0].split()[-1])
    if waits < 2:
        raise Wrong(out)


def fails():
    out, err = llama("-r", large(), *TOKENS, status=1,
                     before=strace("error=EIO:when=3+"), **SLOW)
    if out or "Input/output error" not in err:
        raise Wrong(out + err)


# Several devices, and weights that are read in each pass.

DEVICES = ("CPU:devices=2,CPU1", "CPU:devices=2,apart=1,CPU1",
           "CPU:devices=3,apart=1,CPU1,CPU2",
           "CPU:devices=4,apart=1,CPU3,CPU1,CPU2")
# A model of 0.9 MB; the largest tensor has 41 kB.
BUDGETS = (60000, 130000, 500000, 2000000)


def same_bits(title, write, *ways, **env):
    """@ways: options with which the logits have the same bits."""
    def test():
        path = write(layers=5)
        for passes in ((), ("-b", 5), ("-b", 1)):
            want = logits(path, "-t", 1, *passes).tobytes()
            for way in ways:
                got = logits(path, "-t", 1, *passes, *way, **env)
                if got.tobytes() != want:
                    raise Wrong(f"other logits with {way} {passes}")
    return title, test


def divided():
    devices = [("-d", d) for d in DEVICES]
    budgets = [("-w", b) for b in BUDGETS]
    both = [(*d, *b) for d in devices[1:3] for b in budgets[:3]]
    for name, write in (("GGUF", of_gguf(Type.Q8_0)),
                        ("safetensors", of_hf("F16"))):
        yield same_bits(f"{name}: layers on several devices give the same "
                        "logits", write, *devices)
        yield same_bits(f"{name}: weights that are read again and again give "
                        "the same logits", write, *budgets)
        yield same_bits(f"{name}: so do both together", write, *both)
    yield same_bits("a matrix that is tied, on the first and the last device, "
                    "gives the same logits",
                    lambda **c: of_gguf(Type.F16)(tied=True, **c),
                    *devices, *both)
    yield same_bits("factors of RoPE on several devices give the same logits",
                    lambda **c: of_hf("F32")(rope=LLAMA3, **c), *devices,
                    *both)
    yield same_bits("norms of heads, biases, and windows of some layers, on "
                    "several devices, give the same logits",
                    lambda **c: of_hf("F16", config={
                        **variants.WINDOW, "max_window_layers": 2})(
                            **{**QWEN3, "biases": ATTENTION, **c}), *devices,
                    *both)


def invariant():
    """In one piece, in chunks, and token by token."""
    ways = [("-b", b, "-t", t) for b, t in
            ((1, 1), (1, 3), (2, 1), (5, 2), (17, 3), (20, 1))]

    def same(title, write, precision, **changed):
        def test():
            path = write(**changed)
            how = ("-p", precision)
            want = logits(path, "-t", 2, *how).tobytes()
            for way in ways:
                if logits(path, *how, *way).tobytes() != want:
                    raise Wrong(f"other logits with {way}")
        return f"{title}, {precision}: logits do not depend on passes", test
    for kind in (Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0):
        yield same(kind.name, of_gguf(kind), "invariant")
    for kind in (Type.Q4_K, Type.Q6_K):
        yield same(kind.name, of_gguf(kind), "invariant", embedding=256,
                   head=64, inner=256)
    yield same("one KV head for each head", of_gguf(Type.F16), "invariant",
               kv_heads=4)
    yield same("Q8_0", of_gguf(Type.Q8_0), "f32")
    yield as_reference("GGUF, Q8_0, f32", CACHE_ERROR, of_gguf(Type.Q8_0),
                       options=("-p", "f32"))


# GPUs of the stand-in driver. They compute if the build has kernels, and only
# have memory if the driver is older than what the kernels need.

GPUS = ("CUDA0,CPU", "CPU,CUDA0", "CUDA0,CUDA1,CPU",
        "CUDA0,CPU:devices=2,apart=1,CUDA1,CPU1")


def on_gpus():
    """Logits that GPUs compute."""
    env = stand_in()
    if not env or not have_kernels():
        yield "no stand-in driver, or no kernels for it", None
        return

    def gpu(what, limit, write, devices="CUDA0", share=None,
            passes=((), ("-b", 5)), **changed):
        """@share: of the file, which the weights of a device may take."""
        def test():
            path = write(**changed)
            budget = ("-w", int(share * os.path.getsize(path))) if share \
                else ()
            want = Session(open_model(path)).logits(TOKENS)
            for way in passes:
                near(f"with {way}",
                     logits(path, "-d", devices, *budget, *way, **env),
                     want, limit)
        fed = ", weights that are read again and again" if share else ""
        return f"{what}{fed}: logits of {devices} are those of the " \
            "reference", test
    for kind, name, changed in KINDS:
        model = f"GGUF, {name}", ROUNDED_ERROR, of_gguf(kind)
        yield gpu(*model, **changed)
        yield gpu(*model, "CUDA0,CUDA1", passes=((),), **changed)
        for devices, share in FED:
            yield gpu(*model, devices, share, (("-b", 5),), **changed)
    yield gpu("safetensors, F32, Llama 3's scaling of RoPE", CACHE_ERROR,
              of_hf("F32"), rope=LLAMA3)
    yield gpu("GGUF, Q8_0, layers on three devices", ROUNDED_ERROR,
              of_gguf(Type.Q8_0), devices="CUDA0,CUDA1,CPU", layers=5)
    yield gpu("GGUF, Q5_1, for which GPUs have a plain kernel", ROUNDED_ERROR,
              of_gguf(Type.Q5_1))


def in_gpus():
    env = stand_in()
    if not env:
        yield "no stand-in driver, or no module for it", None
        return
    env["FAKECUDA_VERSION"] = "11030"
    ways = [("-d", d) for d in GPUS]
    for name, write in (("GGUF", of_gguf(Type.Q8_0)),
                        ("safetensors", of_hf("F16"))):
        yield same_bits(f"{name}: weights in GPUs that do not compute give the "
                        "same logits", write, *ways, **env)
    yield same_bits("weights in such GPUs, and weights that are read again and "
                    "again, give the same logits", of_gguf(Type.Q8_0),
                    *((*w, "-w", b) for w in ways for b in BUDGETS[1:3]),
                    **env)
    yield refuses("GPUs that do not compute, alone",
                  lambda _: of_gguf(Type.F32)(), ("CUDA0", "compute"),
                  ("-d", "CUDA0"), **env)


def refuses(title, write, parts, options=(), tokens=(1, 2), **env):
    def test():
        out, err = llama(*options, write("bad"), *tokens, status=1, **env)
        if out or err.count("\n") != 1 or not all(p in err for p in parts):
            raise Wrong(f"got {out}{err}want {parts}")
    return f"examples/llama refuses {title}", test


def cases():
    yield from same_as_reference()
    yield from variants_as_reference()
    yield "the tokens that are generated are those of the reference", generates
    if have_strace():
        yield "logits are right while the weights arrive slowly", arrives
        yield "computing begins before all weights are there", overlaps
        yield "a read that fails ends the run with its sentence", fails
    else:
        yield "no strace, or it cannot trace", None
    yield from divided()
    yield from invariant()
    yield from in_gpus()
    yield from on_gpus()
    for case in refused.CASES:
        yield refuses(*case)


if __name__ == "__main__":
    main(list(cases()), "m", "m.gguf", "bad")
