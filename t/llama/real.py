# SPDX-License-Identifier: MIT
"""Compares weir with transformers and llama.cpp; prints TAP. In an empty folder.

real.py TREE [LLAMA_CPP]: TREE has the texts that the models learn, LLAMA_CPP the
sources of llama.cpp with convert_hf_to_gguf.py. Without the package llama_cpp only
transformers is compared.
"""
import functools
import json
import os
import subprocess
import sys

import gguf
import torch
import transformers

import trained
from harness import Wrong, main

try:
    from llama_cpp import llama_cpp
except ImportError:
    llama_cpp = None

TREE = sys.argv[1]
LLAMA_CPP = sys.argv[2] if len(sys.argv) > 2 else None
PROMPT = "The files of a model are "
N = 40
DTYPES = "f32", "f16", "bf16", "q8_0", "q4_0", "q4_k", "q6_k"
# Both programs round the activations that quantised weights are multiplied with,
# in blocks of different lengths, and llama.cpp those of BF16 to BF16. Where the scores of two tokens are this close,
# either may be taken; wrong weights or tokens make differences of several units.
CLOSE = 0.2
WARNING, ERROR = 3, 4       # enum ggml_log_level
PRE = {"llama3": "llama-bpe", "qwen2": "qwen2", "qwen3": "qwen2"}


def run(*args):
    done = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True,
                          check=False)
    if done.returncode:
        raise Wrong(f"{' '.join(args)}: status {done.returncode}, "
                    f"{done.stderr.decode()[-2000:]}")
    return done.stdout


def same(what, got, want):
    if got != want:
        raise Wrong(f"{what}: {str(got)[:600]}, not {str(want)[:600]}")


def differences(a, b):
    """The members of two dictionaries that are not the same."""
    return {k: (a.get(k), b.get(k)) for k in {**a, **b} if a.get(k) != b.get(k)}


@functools.cache
def model(name):
    """The folder of a model, which is made once."""
    folder = os.path.join("models", name)
    loss = trained.write(name, TREE, folder)
    print(f"# {name}: {loss:.2f} is the loss of the last step", flush=True)
    shards = [f for f in os.listdir(folder) if "-of-" in f]
    if len(shards) < 2:
        raise Wrong(f"transformers has written {len(shards)} shards")
    return folder


@functools.cache
def converted(name, dtype):
    path = os.path.join("models", f"{name}-{dtype or 'same'}.gguf")
    run("weir", "convert", "--quiet", model(name), path,
        *(("--dtype", dtype) if dtype else ()))
    return path


def weir_text(path):
    """Tokens of the prompt, and those that follow."""
    out = json.loads(run("weir", "run", path, "--prompt", PROMPT, "-n", str(N),
                         "--temp", "0", "--json"))
    return out["prompt_tokens"], out["tokens"]


@functools.cache
def transformers_text(name):
    folder = model(name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(PROMPT).input_ids
    out = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32).generate(
            torch.tensor([ids]), max_new_tokens=N, do_sample=False)
    return ids, out[0].tolist()[len(ids):]


# llama.cpp

def listen():
    """Warnings and errors of llama.cpp; what it returns must be kept."""
    said = []

    @llama_cpp.llama_log_callback
    def take(level, text, _):
        if level in (WARNING, ERROR):
            said.append(text.decode(errors="replace").strip())
    llama_cpp.llama_log_set(take, None)
    return said, take


if llama_cpp:
    SAID, KEPT = listen()
    llama_cpp.llama_backend_init()


def load(path):
    SAID.clear()
    loaded = llama_cpp.llama_model_load_from_file(
        path.encode(), llama_cpp.llama_model_default_params())
    if not loaded:
        raise Wrong(f"llama.cpp does not load {path}: {SAID}")
    same(f"warnings about {path}", SAID, [])
    return loaded


def context_of(loaded):
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = 256
    params.n_threads = params.n_threads_batch = 1
    params.type_k = params.type_v = llama_cpp.GGML_TYPE_F32
    params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    return llama_cpp.llama_init_from_model(loaded, params)


def encode(vocabulary):
    room = (llama_cpp.llama_token * 1000)()
    text = PROMPT.encode()
    n = llama_cpp.llama_tokenize(vocabulary, text, len(text), room, 1000, True,
                                 False)
    return list(room[:n])


def follow(path, want):
    """Tokens of the prompt, and whether llama.cpp chooses those of @want.

    Returns the number of tokens until one of almost equal scores is another.
    """
    loaded = load(path)
    vocabulary = llama_cpp.llama_model_get_vocab(loaded)
    count = llama_cpp.llama_vocab_n_tokens(vocabulary)
    context = context_of(loaded)
    ids = feed = encode(vocabulary)
    equal = 0
    for token in want:
        ids_of_batch = (llama_cpp.llama_token * len(feed))(*feed)
        if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(
                ids_of_batch, len(feed))):
            raise Wrong("llama_decode has failed")
        scores = llama_cpp.llama_get_logits_ith(context, -1)[:count]
        best = max(scores)
        if scores[token] != best:
            if best - scores[token] > CLOSE:
                raise Wrong(f"{path}: token {equal} is {token}, the score of "
                            f"{scores.index(best)} is {best - scores[token]} "
                            "more")
            break
        equal += 1
        feed = [token]
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(loaded)
    return ids, equal


def runs_alike(name, dtype):
    def test():
        path = converted(name, dtype)
        ids, tokens = weir_text(path)
        plain = dtype in ("", "f32", "bf16")
        if plain:
            want = transformers_text(name)
            same("transformers' tokens of the prompt", ids, want[0])
            same("transformers' tokens", tokens, want[1])
        if llama_cpp:
            its_ids, equal = follow(path, tokens)
            same("llama.cpp's tokens of the prompt", its_ids, ids)
            if dtype == "f32":
                same("tokens that llama.cpp has, too", equal, len(tokens))
    return test


# Files

def read(path):
    """Pairs {key: (type, value)}, tensors {name: (type, shape, bytes)}."""
    file = gguf.GGUFReader(path)
    pairs = {k: ([t.name for t in f.types[:2]], f.contents())
             for k, f in file.fields.items() if not k.startswith("GGUF.")}
    return pairs, {t.name: (t.tensor_type.name, t.shape.tolist(),
                            t.data.tobytes()) for t in file.tensors}


def quantises_alike(name, dtype):
    def test():
        kind = {"q4_k": "Q4_K_S"}.get(dtype, dtype.upper())
        params = llama_cpp.llama_model_quantize_default_params()
        params.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{kind}")
        params.pure, params.nthread = True, 1
        path = os.path.join("models", "quantised.gguf")
        if llama_cpp.llama_model_quantize(
                converted(name, "f32").encode(), path.encode(), params):
            raise Wrong(f"llama_model_quantize has failed: {SAID}")
        (pairs, tensors), (want, want_tensors) = (
            read(p) for p in (converted(name, dtype), path))
        same("pairs", differences(pairs, want), {})
        same("tensors", list(differences(tensors, want_tensors)), [])
    return test


CONVERTER = """
import runpy, sys
pre, script = sys.argv[1:3]
del sys.argv[1:3]
sys.path[:0] = [script.rsplit("/", 1)[0]]
import conversion.base
conversion.base.TextModel.get_vocab_base_pre = lambda *_: pre
runpy.run_path(script, run_name="__main__")
"""
# llama.cpp's converter writes the name with a capital, and takes the rest from
# the classes of transformers or leaves it to the reader.
OURS = {"general.name", "tokenizer.ggml.add_sep_token",
        "tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token",
        "tokenizer.ggml.add_space_prefix", "tokenizer.ggml.eot_token_id"}


def converts_alike(name):
    """The converter knows tokenizers by digests of what they encode, and these
    have been trained here: it is told which one it is."""
    def test():
        path = os.path.join("models", "reference.gguf")
        run(sys.executable, "-c", CONVERTER, PRE.get(name, "default"),
            os.path.join(LLAMA_CPP, "convert_hf_to_gguf.py"), model(name),
            "--outfile", path, "--outtype", "auto")
        (pairs, tensors), (want, want_tensors) = (
            read(p) for p in (converted(name, ""), path))
        same("tensors", list(differences(tensors, want_tensors)), [])
        wrong = {k: v for k, v in differences(pairs, want).items()
                 if k not in OURS and not (
                     v[1] is None and k.startswith("qwen"))}
        same("pairs", wrong, {})
    return test


def comes_back(name):
    def test():
        run("weir", "convert", "--quiet", "--dtype", "bf16",
            converted(name, ""), "back/")
        (a, b), (tokenizer, back) = (
            [kind.from_pretrained(path, **how)
             for path in (model(name), "back")] for kind, how in (
                 (transformers.AutoModelForCausalLM, {"dtype": "auto"}),
                 (transformers.AutoTokenizer, {})))
        check_tensors(a, b)
        wrong = differences(a.config.to_dict(), b.config.to_dict())
        for key in "_name_or_path", "eos_token_id":
            wrong.pop(key, None)
        if name == "mistral":       # Without a window it is Llama.
            for key in ("mlp_bias", "architectures", "attention_bias",
                        "model_type", "pretraining_tp"):
                wrong.pop(key)
        same("members of config.json", wrong, {})
        same("the end", back.eos_token, tokenizer.eos_token)
        same("template", back.chat_template, tokenizer.chat_template)
        for text in PROMPT, "two  spaces\n\n x 123456 é中😀 don't I'LL", "":
            same(f"tokens of {text!r}", back(text).input_ids,
                 tokenizer(text).input_ids)
    return test


def check_tensors(a, b):
    want, got = a.state_dict(), b.state_dict()
    same("names", sorted(got), sorted(want))
    for key, value in want.items():
        if value.dtype != got[key].dtype or not torch.equal(value, got[key]):
            raise Wrong(f"{key}: other elements")


def another_folder():
    """Fewer shards, other numbers; transformers finds all that it had."""
    run("weir", "convert", "--quiet", "--dtype", "f16", "--shard", "1M",
        model("llama3"), "back/")
    a = transformers.AutoModelForCausalLM.from_pretrained(
        model("llama3"), dtype="auto").to(torch.float16)
    b = transformers.AutoModelForCausalLM.from_pretrained("back", dtype="auto")
    check_tensors(a, b)
    wrong = differences(a.config.to_dict(), b.config.to_dict())
    for key in "_name_or_path", "dtype":
        wrong.pop(key, None)
    same("config.json", wrong, {})
    same("its dtype", b.config.dtype, torch.float16)
    same("generation_config.json", b.generation_config.to_dict(),
         a.generation_config.to_dict())
    same("tokens", transformers.AutoTokenizer.from_pretrained("back")(
        PROMPT).input_ids, transformers_text("llama3")[0])


def all_tests():
    programs = "transformers and llama.cpp" if llama_cpp else "transformers"
    for name in trained.FAMILIES:
        for dtype in ("", *DTYPES):
            yield (f"{name}: {programs} write the text of the GGUF file with "
                   f"{dtype or 'its own dtypes'}", runs_alike(name, dtype))
        for dtype in DTYPES[3:]:
            yield (f"{name}: {dtype} are the bytes of llama.cpp's quantiser",
                   quantises_alike(name, dtype)) if llama_cpp else (
                       "no package llama_cpp", None)
        yield (f"{name}: pairs and tensors are those of llama.cpp's converter",
               converts_alike(name)) if LLAMA_CPP else (
                   "no sources of llama.cpp", None)
        yield (f"{name}: transformers loads what comes back from GGUF",
               comes_back(name))
    yield ("transformers loads the model from another folder, with other "
           "shards and dtypes", another_folder)


if __name__ == "__main__":
    for package in transformers, torch, llama_cpp and sys.modules["llama_cpp"]:
        if package:
            print(f"# {package.__name__} {package.__version__}")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    main(list(all_tests()), "back")
