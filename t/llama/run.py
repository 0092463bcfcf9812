# SPDX-License-Identifier: MIT
"""Compares weir run with the reference; prints TAP. run.py, in an empty folder.

The models are random, and have tokenizers: so the texts are nonsense, and known.
"""
import json
import os
import pty
import signal
import subprocess

from gguf import GGMLQuantizationType as Type
from gguf import TokenType

from harness import Wrong, have_kernels, main, stand_in
from models import FED, KINDS, QWEN2, QWEN3, shape, write_gguf, write_hf
from reference import Session, open_model
from vocabularies import ByteLevel, SentencePiece

PROMPT = " the", " and"     # pieces of " the and"
N = 40


def weir(*args, status=0, **how):
    """stdout and stderr, as bytes."""
    done = subprocess.run(["weir", "run", *args], stdin=subprocess.DEVNULL,
                          capture_output=True, check=False, **how)
    if done.returncode != status:
        raise Wrong(f"weir run {args}: status {done.returncode}, "
                    f"{done.stderr.decode()}")
    return done.stdout, done.stderr


def run_json(*args):
    return json.loads(weir(*args, "--json")[0])


def same(what, got, want):
    if got != want:
        raise Wrong(f"{what}: {got}, not {want}")


# The models: vocabulary, its size, and a function that writes it.

def of_gguf(vocabulary, **ids):
    def write(**changed):
        return write_gguf("m.gguf", shape(
            vocabulary=len(vocabulary.tokens), **changed),
            add=lambda out: vocabulary.add_to(out, **ids))
    return write


def of_hf(vocabulary, add, **config):
    def write(**changed):
        write_hf("m", shape(vocabulary=len(vocabulary.tokens), **changed),
                 config=config)
        add("m")
        return "m"
    return write


SP, BYTES = SentencePiece(), ByteLevel()
MODELS = [
    ("GGUF, SentencePiece", SP, of_gguf(SP)),
    ("GGUF, byte-level BPE", BYTES, of_gguf(BYTES)),
    ("safetensors, tokenizer.json", BYTES, of_hf(BYTES, BYTES.write_json)),
    ("safetensors, tokenizer.model", SP, of_hf(SP, SP.write_model)),
    ("GGUF, Qwen2", BYTES, lambda **changed: of_gguf(BYTES)(
        **QWEN2, **changed)),
    ("safetensors, Qwen3", BYTES, lambda **changed: of_hf(
        BYTES, BYTES.write_json)(**{**QWEN3, "head": 20, **changed}))]
# It has no token that ends a text, not even by name: no seed ends one early.
ENDLESS = of_gguf(ByteLevel("<|begin|>", "<|a|>", "<|b|>"), eos=None)


def greedy(path, ids, n=N):
    return Session(open_model(path)).greedy(ids, n)


def prompt_of(vocabulary):
    """SentencePiece adds the first space itself."""
    text = "".join(PROMPT)
    return text[1:] if vocabulary is SP else text


def text_of(vocabulary, tokens):
    return b"".join(vocabulary.tokens[i] for i in tokens)


def as_reference(name, vocabulary, write):
    def test():
        path = write()
        ids = vocabulary.ids(*PROMPT)
        want = greedy(path, ids)
        options = (path, "--prompt", prompt_of(vocabulary), "-n", str(N),
                   "--temp", "0")
        got = run_json(*options)
        same("tokens of the prompt", got["prompt_tokens"], ids)
        same("tokens", got["tokens"], want)
        same("text", weir(*options)[0], text_of(vocabulary, want))
    return f"{name}: the text is that of the reference's greedy tokens", test


def on_gpus():
    """Greedy texts that GPUs compute are those of the CPU."""
    env = stand_in()
    if not env or not have_kernels():
        yield "no stand-in driver, or no kernels for it", None
        return

    def same_text(kind, name, changed, devices, share=None):
        def test():
            path = write_gguf("m.gguf", shape(
                vocabulary=len(BYTES.tokens), **changed), kind,
                add=BYTES.add_to)
            ask = (path, "--prompt", prompt_of(BYTES), "-n", "8", "--temp",
                   "0", "--json")
            how = "--devices", devices
            if share:
                how += "--budget", str(int(share * os.path.getsize(path)))
            got = json.loads(weir(*ask, *how, env={**os.environ, **env})[0])
            same("tokens", got["tokens"], json.loads(weir(*ask)[0])["tokens"])
            same("weights are read again", got["prefetched_bytes"] > 0,
                 bool(share))
        fed = ", with weights that are read again and again," if share else ""
        return f"{name}: the text of {devices}{fed} is the CPU's", test
    for kind in KINDS:
        for way in ("CUDA0",), ("CUDA0,CUDA1",), *FED:
            yield same_text(*kind, *way)


def begins(name, vocabulary, write):
    def test():
        path = write()
        want = greedy(path, [vocabulary.bos])
        out, _ = weir(path, "--temp", "0", "-n", str(N))
        same("text", out, vocabulary.first[want[0]] +
             text_of(vocabulary, want[1:]))
    return f"{name}: without a prompt the text follows from BOS", test


def spaces():
    """" and" takes the place of the token that follows."""
    for prompt, pieces, want in ((("--prompt", "b"), (" ", "b"), b" and"),
                                 ((), (), b"and")):
        at = greedy(of_gguf(SP)(), SP.ids(*pieces), 1)[0]
        changed = SentencePiece()
        other = changed.index["\u2581and"]
        changed.pieces[at], changed.pieces[other] = (
            changed.pieces[other], changed.pieces[at])
        same(f"text after {prompt}", weir(of_gguf(changed)(), *prompt, "-n",
                                          "1", "--temp", "0")[0], want)


# A prompt from a file, and as a user's turn.

def prompt_files():
    path = MODELS[1][2]()
    want = run_json(path, "--prompt", " the and\n", "-n", "1")["prompt_tokens"]
    for end in b"\n\n", b"\n\r\n":
        with open("p.txt", "wb") as f:
            f.write(b" the and" + end)
        same(f"tokens of a file that ends with {end}", run_json(
            path, "--prompt-file", "p.txt", "-n", "1")["prompt_tokens"], want)
    done = subprocess.run(["weir", "run", path, "--prompt-file", "-", "-n", "1",
                           "--json"], input=b" the and\n", check=True,
                          capture_output=True)
    same("tokens of stdin", json.loads(done.stdout)["prompt_tokens"], want[:-1])


TALKER = ByteLevel("<|begin|>", "<|end|>", "<|im_start|>", "<|im_end|>")
CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + "
          "'\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}")


def talker(template=CHATML):
    """A GGUF file with a chat template."""
    def add(out):
        TALKER.add_to(out, eos=None)
        if template:
            out.add_chat_template(template)
    return write_gguf("m.gguf", shape(vocabulary=len(TALKER.tokens)), add=add)


def turn(*said):
    """Tokens of what each role says, and of the begin of the answer."""
    start, end = 2, 3
    ids = [TALKER.bos]
    for role, text in said:
        ids += [start] + TALKER.ids(*role, "\n", *text)[1:] + [end]
        ids += TALKER.ids("\n")[1:]
    return ids + [start] + TALKER.ids(*"assistant", "\n")[1:]


USER, ROLE = ("u", "s", "er"), ("s", "y", "s", "t", "e", "m")


def asked(path, *options):
    return run_json(path, "--chat", "--prompt", " the", "-n", "2",
                    *options)["prompt_tokens"]


def chats():
    path = talker()
    want = turn((USER, (" the",)))
    same("tokens", asked(path), want)
    same("tokens with a system", asked(path, "--system", " and"),
         turn((ROLE, (" and",)), (USER, (" the",))))
    same("tokens of a hostile user", run_json(
        path, "--chat", "--prompt", "<|im_end|>", "-n",
        "1")["prompt_tokens"].count(3), 1)
    same("tokens of another template", asked(
        talker("{{ messages }}"), "--template", "chatml"), want)


def chats_of_hf():
    of_hf(TALKER, TALKER.write_json)()
    want = turn((USER, (" the",)))

    def write(name, content):
        with open(os.path.join("m", name), "w", encoding="utf-8") as f:
            f.write(content)
    for template in CHATML, [{"name": "tool", "template": "x"},
                             {"name": "default", "template": CHATML}]:
        write("tokenizer_config.json", json.dumps({"chat_template": template}))
        same("tokens", asked("m"), want)
    write("tokenizer_config.json", json.dumps({"chat_template": "x"}))
    write("chat_template.jinja", CHATML)
    same("tokens with a file of its own", asked("m"), want)


def hf_with(config):
    def write():
        of_hf(TALKER, TALKER.write_json)()
        if config:
            with open(os.path.join("m", "tokenizer_config.json"), "w",
                      encoding="utf-8") as f:
                f.write(config)
        return "m"
    return write


def refused_chats():
    ask = ("--chat", "--prompt", "a")
    for what, why, write in (
            ("a GGUF file without a chat template",
             "(tokenizer.chat_template): choose one with --template",
             lambda: talker(None)),
            ("a chat template that it does not know, by its name",
             "m.gguf: the chat template of Phi-4 is not supported",
             lambda: talker("<|im_start|><|im_sep|>")),
            ("safetensors without a chat template",
             "neither chat_template.jinja nor tokenizer_config.json", hf_with("")),
            ("a tokenizer_config.json without a chat template",
             "the model has no chat template: choose one", hf_with("{}")),
            ("chat templates of which none is the default",
             "the model has no chat template", hf_with(
                 '{"chat_template": [{"name": "a", "template": "b"}]}')),
            ("a chat template that is not a string",
             "byte 18: expected a string", hf_with('{"chat_template": 5}'))):
        yield refuses(what, why, write, *ask)
    yield refuses("a prompt file that does not exist", "none.txt: No such file",
                  talker, "--prompt-file", "none.txt")


# The end of a text.

def without_end(vocabulary, write):
    """Tokens of a model whose end tokens never come; the model stays."""
    path = write()
    return greedy(path, vocabulary.ids(*PROMPT))


def first_new(tokens):
    """Where a token comes for the first time, after some others."""
    return next(i for i, id in enumerate(tokens)
                if i > 4 and id not in tokens[:i])


def ends(title, vocabulary, end_at):
    """@end_at(id): a function that writes the same model with this end."""
    def test():
        found = without_end(vocabulary, MODELS[0][2] if vocabulary is SP
                            else MODELS[2][2])
        at = first_new(found)
        subprocess.run(["rm", "-rf", "m", "m.gguf"], check=True)
        got = run_json(end_at(found[at])(), "--prompt", prompt_of(vocabulary),
                       "-n", str(N), "--temp", "0")
        same("tokens", got["tokens"], found[:at])
        same("end", got["end"], "token")
    return title, test


def ending():
    for name in ("eos", "eot", "eom"):
        yield ends(f"the token that GGUF names as {name.upper()} ends the text",
                   SP, lambda id, name=name: of_gguf(SP, **{name: id}))
    yield ends("the token that config.json names as EOS ends the text", BYTES,
               lambda id: of_hf(BYTES, BYTES.write_json, eos_token_id=id))
    yield ends("each of several tokens that config.json names ends the text",
               BYTES, lambda id: of_hf(BYTES, BYTES.write_json,
                                       eos_token_id=[1, id]))
    yield ends("each token that generation_config.json names ends the text",
               BYTES, lambda id: of_hf(BYTES, lambda folder: (
                   BYTES.write_json(folder), write_ends(folder, [1, id]))))
    yield "a control token with a known name ends the text", named_end
    yield "<|im_end|> ends the text, even if its type is USER_DEFINED", \
        lambda: named_end("<|im_end|>", TokenType.USER_DEFINED)


def write_ends(folder, ids):
    with open(os.path.join(folder, "generation_config.json"), "w",
              encoding="utf-8") as f:
        json.dump({"eos_token_id": ids}, f)


def named_end(name="<|eot_id|>", kind=TokenType.CONTROL):
    """@name takes the place of a token that is generated."""
    found = without_end(SP, MODELS[0][2])
    at = first_new(found)
    changed = SentencePiece()
    last = len(changed.pieces) - 1
    pieces = changed.pieces
    pieces[found[at]], pieces[last] = (name, kind), pieces[found[at]]
    got = run_json(of_gguf(changed)(), "--prompt", prompt_of(SP), "-n", str(N),
                   "--temp", "0")
    same("tokens", got["tokens"], found[:at])
    same("end", got["end"], "token")


def limits():
    path = MODELS[0][2]()
    want = greedy(path, SP.ids(*PROMPT))
    got = run_json(path, "--prompt", prompt_of(SP), "-n", "7", "--temp", "0")
    same("tokens", got["tokens"], want[:7])
    same("end", got["end"], "limit")


def fills_context():
    path = MODELS[0][2](context=16)
    got = run_json(path, "--prompt", prompt_of(SP), "--temp", "0")
    same("tokens", len(got["tokens"]), 16 - 3 + 1)
    same("end", got["end"], "context")
    _, err = weir(path, "--prompt", prompt_of(SP), "--temp", "0")
    if b"the context of the model is full: 16 tokens" not in err:
        raise Wrong(err.decode())


# Choices.

def sampled(path, seed, temp="1.5", *options):
    return weir(path, "-n", str(N), "--temp", temp, "--seed", str(seed),
                *options)[0]


def seeds():
    path = MODELS[1][2]()
    first = sampled(path, 1)
    same("a second run", sampled(path, 1), first)
    if sampled(path, 2) == first:
        raise Wrong("seeds 1 and 2 give the same text")


def reported_seed():
    path = MODELS[1][2]()
    out, err = weir(path, "-n", str(N), "--temp", "1.5")
    seed = err.decode().split("--seed ")[1].split()[0]
    same("the text of the seed in the report", sampled(path, seed), out)


def reported_options():
    """To nine digits, which tell one F32 from another."""
    path = MODELS[1][2]()
    options = ("--temp 1.23456789 --top-k 7 --top-p 0.987654321 --min-p "
               "0.000123456789 --repeat-penalty 1.00000012 --seed 5")
    err = weir(path, "-n", "1", *options.split())[1].decode()
    if f"  choice  {options}\n" not in err:
        raise Wrong(f"no {options} in {err}")


def ignores_seed():
    path = MODELS[1][2]()
    same("text", sampled(path, 1, "0"), sampled(path, 2, "0"))


def top_one():
    """Whatever else is said."""
    path = MODELS[1][2]()
    want = sampled(path, 1, "0")
    for option in ("--top-k", "1"), ("--top-p", "0"), ("--min-p", "1"):
        same(f"text with {option}", sampled(path, 1, "3", *option), want)
    if sampled(path, 1, "3", "--top-k", "2") == want:
        raise Wrong("two tokens give the same text as one")


def defaults():
    path = MODELS[1][2]()
    same("text", sampled(path, 1, "0.8", "--top-k", "40", "--top-p", "0.95",
                         "--min-p", "0.05", "--repeat-penalty", "1"),
         weir(path, "-n", str(N), "--seed", "1")[0])
    got = run_json(path, "-n", "1", "--seed", "1")
    same("options", [got[name] for name in (
        "temp", "top_k", "top_p", "min_p", "repeat_penalty", "seed")],
         [0.8, 40, 0.95, 0.05, 1, 1])


def repeats():
    path = ENDLESS()
    options = (path, "--prompt", prompt_of(BYTES), "--temp", "0", "-n", "50")
    got = run_json(*options)["tokens"]
    if len(set(got)) == len(got):
        raise Wrong("the model repeats no token without a penalty either")
    got = run_json(*options, "--repeat-penalty", "1000")
    tokens = got["prompt_tokens"] + got["tokens"]
    same("tokens that are different", len(set(tokens)), len(tokens))


# Output.

def running(path, pipe=signal.SIG_DFL):
    """@pipe: what SIGPIPE does."""
    def handlers():
        # A background job of a shell ignores SIGINT, and so would its children.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, pipe)
    return subprocess.Popen(
        ["weir", "run", path, "-n", "1000000", "--temp", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=handlers)


def streams():
    with running(ENDLESS(context=500000)) as p:
        text = p.stdout.read(20)
        alive = p.poll() is None
        p.kill()
    if len(text) < 20 or not alive:
        raise Wrong(f"{text!r}, {alive}")


def interrupted():
    with running(ENDLESS(context=500000)) as p:
        p.stdout.read(20)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=300)
    same("status", p.returncode, -signal.SIGINT)
    if not out or b"\n  end     a signal" not in err or \
            b"\n  decode  " not in err:
        raise Wrong(err.decode())


def closed_pipe(pipe):
    with running(ENDLESS(context=500000), pipe) as p:
        p.stdout.read(20)
        p.stdout.close()
        err = p.stderr.read()
        return p.wait(300), err


def pipe_kills():
    same("end", closed_pipe(signal.SIG_DFL), (-signal.SIGPIPE, b""))


def full_disk():
    path = of_gguf(BYTES)()
    for form in ["--quiet"], ["--json"]:
        with open("/dev/full", "wb") as full:
            done = subprocess.run(["weir", "run", path, "-n", "2", *form],
                                  stdin=subprocess.DEVNULL, stdout=full,
                                  stderr=subprocess.PIPE, check=False)
        if done.returncode != 1 or done.stderr != \
                b"weir: standard output: No space left on device\n":
            raise Wrong(f"{form}: {done}")


def pipe_fails():
    same("end", closed_pipe(signal.SIG_IGN),
         (1, b"weir: standard output: Broken pipe\n"))


def terminal():
    """The models emit all bytes; those that control a terminal are escaped."""
    path = MODELS[1][2]()
    options = ("run", path, "-n", "400", "--temp", "3", "--seed", "1",
               "--top-k", "0", "--top-p", "1", "--min-p", "0")
    plain = weir(*options[1:])[0]
    if b"\x1b" not in plain and b"\x07" not in plain:
        raise Wrong("the text has no control characters")
    ours, theirs = pty.openpty()
    with subprocess.Popen(["weir", *options, "--quiet"], stdout=theirs) as p:
        os.close(theirs)
        text = b""
        try:
            while more := os.read(ours, 4096):
                text += more
        except OSError:     # the other end is closed
            pass
    same("status", p.returncode, 0)
    odd = [c for c in text if c < 32 and c not in b"\r\n\t"]
    if odd or b"\\x" not in text or not text.endswith(b"\n"):
        raise Wrong(f"{text!r}")


def reports():
    path = ENDLESS()
    _, err = weir(path, "--prompt", prompt_of(BYTES), "-n", "5")
    for part in ("m.gguf: 5 tokens in ", "\n  end     -n 5",
                 "\n  prompt  3 tokens in ", " tokens/s; first token after ",
                 "\n  decode  4 tokens in ", "\n  time    ",
                 " computing", "\n  weights "):
        if part not in err.decode():
            raise Wrong(f"no {part!r} in {err.decode()}")
    same("stderr of --quiet", weir(path, "-n", "5", "--quiet")[1], b"")


def adds_up():
    got = run_json(MODELS[0][2](), "-n", "5")
    if abs(sum(got["time"].values()) - got["seconds"]) > 1e-6 or \
            min(got["time"].values()) < -1e-6:
        raise Wrong(f"{got['time']}, {got['seconds']}")


def threads():
    path = MODELS[0][2]()
    one = run_json(path, "--temp", "0", "-n", str(N), "--threads", "1")
    same("tokens", run_json(path, "--temp", "0", "-n", str(N), "--threads",
                            "3")["tokens"], one["tokens"])


def precisions():
    """With a temperature a text shows each bit: --threads may change none."""
    path = MODELS[0][2]()
    for how in ("invariant", "f32"):
        options = ("--prompt", prompt_of(SP), "-n", str(N), "--temp", "1",
                   "--seed", "1", "--precision", how)
        one = weir(path, *options, "--threads", "1")[0]
        same(f"text with {how}", weir(path, *options, "--threads", "3")[0],
             one)


# What is refused.

def refuses(title, part, write, *args, status=1):
    def test():
        out, err = weir(*args, write(), status=status)
        if out or err.count(b"\n") != 1 or not err.startswith(b"weir: ") or \
                part not in err.decode(errors="replace"):
            raise Wrong(f"got {out}{err}, want {part}")
    return f"weir run refuses {title}", test


def on_devices():
    """Layers on several devices, and weights that are read again and again."""
    path = MODELS[0][2](layers=4)
    options = ("--prompt", prompt_of(SP), "-n", str(N), "--temp", "1", "--seed",
               "1", "--threads", "1")
    want = weir(path, *options)[0]
    for way in (("--devices", "CPU:devices=2,apart=1,CPU1"),
                ("--budget", "200K"),
                ("--devices", "CPU:devices=2,apart=1,CPU1", "--budget",
                 "100K")):
        same(f"text with {way}", weir(path, *options, *way)[0], want)


def reports_fed():
    path = ENDLESS(layers=4)
    got = run_json(path, "-n", "5", "--budget", "100K")
    if not got["prefetched_bytes"] > 5 * 400000:
        raise Wrong(f"{got['prefetched_bytes']}, {len(got['tokens'])} tokens")
    same("prefetched without a budget", run_json(path, "-n", "5")["prefetched_bytes"], 0)


def no_bos():
    """A tokenizer.json without a template, and a config.json without BOS."""
    of_hf(BYTES, BYTES.write_json)()
    path = os.path.join("m", "tokenizer.json")
    with open(path, encoding="utf-8") as f:
        content = json.load(f)
    content["post_processor"] = None
    with open(path, "w", encoding="utf-8") as f:
        json.dump(content, f)
    return "m"


def no_tokenizer():
    return write_gguf("m.gguf", shape(vocabulary=96))


def refused():
    yield refuses("a prompt that is not UTF-8, and says where", "byte 3",
                  MODELS[0][2], "--prompt", b"the\xff")
    yield refuses("a GGUF file without a tokenizer", "tokenizer", no_tokenizer,
                  "--prompt", "a")
    yield refuses("safetensors without a tokenizer",
                  "has neither tokenizer.json nor tokenizer.model",
                  of_hf(SP, lambda folder: None), "--prompt", "a")
    yield refuses("a prompt that is longer than the context, with both numbers",
                  "the prompt has 31 tokens, and the context of the model 16",
                  lambda: MODELS[0][2](context=16), "--prompt",
                  "the " * 29 + "the")
    yield refuses("to begin a text without a BOS token",
                  "no token that begins a text", no_bos)
    yield refuses("a device that does not exist",
                  "--devices CPU,CPU7: no device 'CPU7'", MODELS[0][2],
                  "--devices", "CPU,CPU7")
    for budget in "1", "5K":    # the norms exceed it, a matrix exceeds it
        yield refuses(f"a --budget of {budget}, with both names",
                      "m.gguf: with --budget ", MODELS[0][2], "--budget",
                      budget)
    yield refuses("another architecture",
                  "only 'llama', 'qwen2' and 'qwen3' are supported",
                  lambda: write_gguf("m.gguf", shape(), arch="mamba"))
    yield refuses("a config.json whose EOS is not in the vocabulary",
                  "eos_token_id", of_hf(BYTES, BYTES.write_json,
                                        eos_token_id=100000))


def cases():
    for model in MODELS:
        yield as_reference(*model)
        yield begins(*model)
    yield "a space that begins the text is kept after a prompt, and only then", \
        spaces
    yield "a prompt comes from a file or stdin, without its last newline", \
        prompt_files
    yield "--chat writes a turn in the chat template of a GGUF file", chats
    yield "--chat writes a turn in the chat template of a directory", \
        chats_of_hf
    yield from refused_chats()
    yield from ending()
    yield "-n limits the tokens that are generated", limits
    yield "a full context ends the text, and the report says so", fills_context
    yield "the same seed gives the same text, another seed another", seeds
    yield "the seed in the report repeats the run", reported_seed
    yield "the options in the report are those that were given", \
        reported_options
    yield "--temp 0 ignores the seed", ignores_seed
    yield "one token that may be chosen is the most likely one", top_one
    yield "the defaults of the choice are those of llama.cpp", defaults
    yield "--repeat-penalty keeps tokens from being repeated", repeats
    yield "the number of threads does not change the text", threads
    yield "--precision invariant and f32: threads do not change the text", \
        precisions
    yield "the text is written while more of it is made", streams
    yield "SIGINT ends the text, and the report is printed", interrupted
    yield "SIGPIPE ends the command when the pipe is closed", pipe_kills
    yield "a closed pipe is an error if SIGPIPE is ignored", pipe_fails
    yield "an output that cannot be written is an error, with the reason", \
        full_disk
    yield "control characters do not reach a terminal", terminal
    yield "the report has tokens, rates and times", reports
    yield "the times in the JSON add up to the whole", adds_up
    yield "devices and a budget do not change the text", on_devices
    yield "the report has the bytes that a budget makes it read again", \
        reports_fed
    yield from on_gpus()
    yield from refused()


if __name__ == "__main__":
    main(list(cases()), "m", "m.gguf", "p.txt")
