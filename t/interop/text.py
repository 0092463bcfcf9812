# SPDX-License-Identifier: MIT
"""Compares text/ with the packages tokenizers and sentencepiece; prints TAP.

text.py TOKENIZE FOLDER trains vocabularies on the texts of FOLDER (*.md, *.c,
*.[1-7]) and encodes texts with them: those files, and random ones of characters
for which the rules differ. TOKENIZE is t/tokenize.c. Runs in an empty folder.
"""
import functools
import glob
import importlib.util
import json
import os
import random
import subprocess
import sys
import traceback
import unicodedata

import sentencepiece
import chats
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,
                        normalizers, pre_tokenizers, processors, trainers)

TOKENIZE, TREE = sys.argv[1:]
ADD, CONTROL = 1, 2
MARK = "\u2581"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT2 = (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|"
        r"\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*"
          r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
          r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
          r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# The stages of each tokenizer.ggml.pre, and those that do not merge a whole word.
STAGES = {"llama-bpe": [LLAMA3], "qwen2": [QWEN2], "tekken": [TEKKEN],
          "gpt-2": [GPT2], "smollm": [r"\p{N}", GPT2],
          "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+",
                      r"[0-9][0-9][0-9]"]}
WHOLE_WORDS = "llama-bpe", "tekken"


class Wrong(Exception):
    pass


def same(what, got, want):
    if got != want:
        raise Wrong(f"{what}\ngot:  {str(got)[:700]}\nwant: {str(want)[:700]}")


def corpus():
    files = sorted(sum((glob.glob(os.path.join(TREE, *pattern)) for pattern in (
        ["*.md"], ["lib", "*", "*.md"], ["lib", "core", "*.c"],
        ["man", "*.[1-7]"])), []))
    return [open(path, encoding="utf-8").read()[:10000] for path in files]


PARTS = ["'s", "'S", "'re", "'LL", "'x", "'", " ", "  ", "   ", "\t", "\n",
         "\r\n", "\n\n", "\u00a0", "\u3000", "\u0085", "\u2028", "a", "Z",
         "word", "The", "load", "é", "e\u0301", "ß", "\u017f", "Ω", "ж", "中文",
         "日本語", "한국", "العربية", "हिन्दी", "ไทย", "0", "7", "12", "345",
         "6789", "²", "Ⅷ", "½", "٣", "१", ".", ",", "!?", "...", "_", "-", "(",
         "``", "$", "+=", "<", ">", "|", "~", "^", "€", "→", "😀", "👩‍👩‍👧",
         "\u200b", "\u200d", "\ufeff", "\x01", "\x7f", "\u00ad", MARK, "#", "@"]


# Letters with case and without, and marks.
CASES = ["A", "B", "a", "b", "\u01c5", "\u02b0", "中", "\u0301", "\u0903", " ", "/",
         "\n", "'", "-", "1", "ж", "Ж", "ª", "\u00df", "\u0130"]


def texts(seed, n=600, parts=PARTS):
    r = random.Random(seed)
    made = ["".join(r.choices(parts, k=r.randrange(1, 24))) for _ in range(n)]
    return [""] + [t[:4000] for t in TEXTS] + made


def tokenize(path, flags, inputs, *template):
    """[(ids, bytes)] of the program."""
    done = subprocess.run([TOKENIZE, path, str(flags), *template], check=False,
                          input=b"".join(t.encode() + b"\0" for t in inputs),
                          capture_output=True)
    if done.returncode:
        raise Wrong(f"{path}: {done.stderr.decode()}")
    lines = done.stdout.decode().split("\n")
    for line in lines:
        if line.startswith("error"):
            raise Wrong(line)
    return [([int(i) for i in lines[2 * i].split()],
             bytes.fromhex(lines[2 * i + 1])) for i in range(len(inputs))]


def compare(path, flags, inputs, ids_of, text_of=None):
    for text, (ids, back) in zip(inputs, tokenize(path, flags, inputs)):
        same(f"{path}: tokens of {text[:300]!r}", ids, ids_of(text))
        want = text_of(text) if text_of else text
        same(f"{path}: text of the tokens of {text[:300]!r}", back,
             want.encode())


def load_gguf_writer():
    """t/gguf.py, which has the name of a package."""
    spec = importlib.util.spec_from_file_location(
        "writer", os.path.join(TREE, "t", "gguf.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_gguf(path, **values):
    kinds = {"tokens": ["str"], "merges": ["str"], "scores": ["f32"],
             "token_type": ["i32"]}
    pairs = [("general.architecture", "str", "test")]
    for key, value in values.items():
        kind = kinds.get(key) or {bool: "bool", int: "u32",
                                  str: "str"}[type(value)]
        pairs.append((f"tokenizer.ggml.{key}", kind, value))
    GGUF.write_file(path, pairs, [])


# Byte-level BPE.

def stages(patterns):
    split = [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
    return pre_tokenizers.Sequence(
        split + [pre_tokenizers.ByteLevel(False, use_regex=False)])


@functools.cache
def trained():
    """The vocabulary and the merges of a byte-level BPE."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = stages([GPT2])
    t.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=2000, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|begin|>", "<|end|>"]))
    model = json.loads(t.to_str())["model"]
    return model["vocab"], [tuple(m) for m in model["merges"]]


def byte_level(patterns, whole_words=False):
    vocab, merges = trained()
    t = Tokenizer(models.BPE(vocab, merges, ignore_merges=whole_words))
    t.pre_tokenizer = stages(patterns)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens(["<|begin|>", "<|end|>"])
    return t


def plain(t):
    return lambda text: t.encode(text, add_special_tokens=False).ids


def json_byte_level(name):
    t = byte_level(STAGES[name], whole_words=name in WHOLE_WORDS)
    path = f"{name}.json"
    t.save(path)
    compare(path, 0, texts(1), plain(t))


def cut(name):
    """With merges over all bounds of words, which show where they are."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(False, use_regex=False)
    r = random.Random(19)
    t.train_from_iterator(
        ["".join(r.choices(CASES, k=4)) for _ in range(4000)],
        trainers.BpeTrainer(
            vocab_size=4000, show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.pre_tokenizer = stages(STAGES[name])
    t.decoder = decoders.ByteLevel()
    path = f"cut-{name}.json"
    t.save(path)
    compare(path, 0, texts(20, 1000, CASES)[-1000:], plain(t))


def gguf_byte_level(name):
    t = byte_level(STAGES[name], whole_words=name in WHOLE_WORDS)
    vocab, merges = trained()
    tokens = sorted(vocab, key=vocab.get)
    path = f"{name}.gguf"
    write_gguf(path, model="gpt2", pre=name, tokens=tokens,
               merges=[" ".join(m) for m in merges],
               token_type=[3 if i < 2 else 1 for i in range(len(tokens))],
               bos_token_id=0, eos_token_id=1, add_bos_token=True,
               add_eos_token=True)
    compare(path, 0, texts(2), plain(t))
    compare(path, ADD, texts(3, 50), lambda s: [0] + plain(t)(s) + [1])


MARKS = ["e", "\u0301", "\u0323", "\u0308", "\u1ea5", "\u1e9b", "\u212b", "q",
         "\u0344", "\u1100", "\u1161", "\u11a8", "\uac00", "\uac01", "\uf900",
         "\U0002f800", "\u0958", "\u0915", "\u093c", "\u0345", "\u1fb7", "\u03b1",
         "\U0001d15e", "\u0b47", "\u0b3e", "\u00e9", "\u1d16d", "\u302a", " "]


def normalised():
    t = byte_level([QWEN2])
    t.normalizer = normalizers.NFC()
    t.add_tokens([AddedToken("<tool>", special=False, normalized=False)])
    t.save("nfc.json")
    every = [chr(c) + m for c in range(0x10ffff) if ord("a") <= c < 0xd800
             and unicodedata.decomposition(chr(c)) for m in ("", "\u0301")]
    every = ["".join(every[i:i + 50]) for i in range(0, len(every), 50)]
    compare("nfc.json", 0, texts(16, 600, MARKS + ["<tool>"]) + every +
            ["a" + "\u0323\u0301" * 20000],
            plain(t), lambda s: unicodedata.normalize("NFC", s))


def added_tokens():
    t = byte_level([QWEN2])
    t.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|im"])
    t.add_tokens([AddedToken("<tool>", special=False, normalized=False),
                  AddedToken("<strip>", special=False, normalized=False,
                             lstrip=True, rstrip=True)])
    t.post_processor = processors.TemplateProcessing(
        single="<|begin|> $A <|end|>", special_tokens=[
            ("<|begin|>", t.token_to_id("<|begin|>")),
            ("<|end|>", t.token_to_id("<|end|>"))])
    t.save("added.json")
    parts = ["<|im_start|>", "<|im_end|>", "<|im", "<|", "<tool>", "<tool",
             " <strip> ", "\n<strip>\n", "user", " ", "\n", "hello", "<", "é"]
    inputs = texts(4, 800, parts)
    got = tokenize("added.json", CONTROL | ADD, inputs)
    for text, (ids, _) in zip(inputs, got):
        same(f"tokens of {text[:300]!r}", ids, t.encode(text).ids)
    for text, (ids, _) in zip(inputs, tokenize("added.json", 0, inputs)):
        if any(t.id_to_token(i) in ("<|im_start|>", "<|im_end|>", "<|im",
                                    "<|begin|>", "<|end|>") for i in ids):
            raise Wrong(f"{text!r} makes a control token that is not asked for")


def prefix_space():
    t = byte_level([GPT2])
    t.pre_tokenizer = pre_tokenizers.ByteLevel(True)
    t.add_tokens([AddedToken("<tool>", special=False, normalized=False)])
    t.save("prefix.json")
    inputs = texts(5, 500, PARTS + ["<tool>"])
    got = tokenize("prefix.json", 0, inputs)
    for text, (ids, _) in zip(inputs, got):
        same(f"tokens of {text[:300]!r}", ids, plain(t)(text))


# SentencePiece.

@functools.cache
def train_spm(path, **options):
    """A model, which is written to @path.model."""
    with open("corpus.txt", "w", encoding="utf-8") as f:
        f.write("\n".join(TEXTS))
    settings = {"model_type": "bpe", "vocab_size": 2000,
                "byte_fallback": True, "character_coverage": 0.999,
                "normalization_rule_name": "identity",
                "remove_extra_whitespaces": False,
                "allow_whitespace_only_pieces": True,
                "max_sentence_length": 100000, "minloglevel": 2}
    settings.update(options)
    sentencepiece.SentencePieceTrainer.train(
        input="corpus.txt", model_prefix=path, **settings)
    return sentencepiece.SentencePieceProcessor(model_file=path + ".model")


def spaces(text):
    return text.replace(MARK, " ")


def sentencepiece_model():
    sp = train_spm("plain")
    compare("plain.model", 0, texts(6), sp.encode, spaces)
    compare("plain.model", ADD, texts(7, 50),
            lambda s: [sp.bos_id()] + sp.encode(s), spaces)


def sentencepiece_user():
    sp = train_spm("user", user_defined_symbols=(
        "<tool>", "<to", "==", "  ", 3 * MARK))
    compare("user.model", 0,
            texts(8, 600, PARTS + ["<tool>", "<to", "==", "====="]),
            sp.encode, spaces)


def sentencepiece_unknown():
    sp = train_spm("unknown", byte_fallback=False)
    inputs = texts(9)
    for text, (ids, _) in zip(inputs, tokenize("unknown.model", 0, inputs)):
        same(f"tokens of {text[:300]!r}", ids, sp.encode(text))


def sentencepiece_trim():
    sp = train_spm("trim", remove_extra_whitespaces=True,
                   user_defined_symbols=("<tool>",))
    inputs = texts(10, 600, PARTS + ["<tool>", " ", "  "])
    for text, (ids, _) in zip(inputs, tokenize("trim.model", 0, inputs)):
        same(f"tokens of {text[:300]!r}", ids, sp.encode(text))


def sentencepiece_no_prefix():
    sp = train_spm("noprefix", add_dummy_prefix=False)
    compare("noprefix.model", 0, texts(11), sp.encode, spaces)


def sentencepiece_gguf():
    sp = train_spm("gguf")
    n = sp.get_piece_size()
    kinds = [2 if sp.is_unknown(i) else 3 if sp.is_control(i) else
             6 if sp.is_byte(i) else 1 for i in range(n)]
    write_gguf("spm.gguf", model="llama",
               tokens=[sp.id_to_piece(i) for i in range(n)],
               scores=[sp.get_score(i) for i in range(n)], token_type=kinds)
    compare("spm.gguf", 0, texts(12), sp.encode, spaces)
    compare("spm.gguf", ADD, texts(13, 50),
            lambda s: [1] + sp.encode(s), spaces)


# BPE of characters, as tokenizer.json of Llama 2 and its relatives have it.

def characters(normalizer, pre_tokenizer, prefix=True):
    """The vocabulary of a SentencePiece model, with its merges by their rank."""
    sp = train_spm("characters")
    n = sp.get_piece_size()
    vocab = {sp.id_to_piece(i): i for i in range(n)}
    merges = []
    for piece in sorted(vocab, key=vocab.get):
        if sp.is_byte(vocab[piece]) or vocab[piece] < 3:
            continue
        halves = [(piece[:i], piece[i:]) for i in range(1, len(piece))]
        halves = [p for p in halves if p[0] in vocab and p[1] in vocab]
        merges += sorted(halves, key=lambda p: (vocab[p[0]], vocab[p[1]]))
    t = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True,
                             byte_fallback=True))
    t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizer
    t.decoder = decoders.Sequence([
        decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
        + ([decoders.Strip(" ", 1, 0)] if prefix else []))
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    t.add_tokens([AddedToken("<tool>", special=False, normalized=False)])
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)])
    return t


def check_characters(path, t):
    t.save(path)
    inputs = texts(14, 600, PARTS + ["<tool>", "</s>", "x</s>y"])
    got = tokenize(path, ADD | CONTROL, inputs)
    for text, (ids, _) in zip(inputs, got):
        same(f"{path}: tokens of {text[:300]!r}", ids, t.encode(text).ids)
    inputs = texts(15)
    for text, (ids, back) in zip(inputs, tokenize(path, 0, inputs)):
        same(f"{path}: tokens of {text[:300]!r}", ids, plain(t)(text))
        same(f"{path}: text of the tokens of {text[:300]!r}", back,
             t.decode(ids).encode())


# Added tokens with all their settings, in tokenizer.json of several styles.

ADDED = ["<tool>", "<to", "ol>", "tool", "==", "a<", "\u00e9<", "<x> <y>", "\n",
         "\n\n", "  ", MARK + MARK, "<|end|>", "|>|", "word"]
BLANKS = [" ", "  ", "\n", "\t", "\u00a0", "\u3000", "\u0085", "\u2028",
          "\u200b", MARK, MARK + " "]


def style(name):
    if name == "llama2":
        return characters(normalizers.Sequence(
            [normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)]), None)
    if name == "metaspace":
        return characters(None, pre_tokenizers.Metaspace(MARK, "first", False))
    if name == "gemma":
        return characters(
            normalizers.Replace(" ", MARK),
            pre_tokenizers.Split(" ", "merged_with_previous"), False)
    t = byte_level([{"llama3": LLAMA3, "qwen": QWEN2, "gpt2": GPT2}[name]],
                   whole_words=name == "llama3")
    if name == "qwen":
        t.normalizer = normalizers.NFC()
    return t


def random_added(name):
    """Many sets of added tokens, and texts of their parts and of blanks."""
    for seed in range(12):
        r = random.Random(seed)
        strips = seed % 3
        # tokenizers panics if a token strips another one.
        added = [s for s in ADDED if not strips or not s.isspace()]
        t = style(name)
        t.add_tokens([AddedToken(
            s, lstrip=bool(strips) and r.random() < 0.5,
            rstrip=bool(strips) and r.random() < 0.5,
            normalized=r.random() < 0.5,
            special=s[0] == "<" and r.random() < 0.5)
            for s in r.sample(added, 8)])
        path = f"added-{name}.json"
        t.save(path)
        inputs = texts(seed, 300, added + BLANKS * 2 +
                       ["<", ">", "x", "The", "e\u0301", "é"])[-300:]
        for text, (ids, _) in zip(inputs, tokenize(path, CONTROL, inputs)):
            same(f"{path} of seed {seed}: tokens of {text!r}", ids,
                 plain(t)(text))


def json_llama2():
    check_characters("llama2.json", characters(normalizers.Sequence(
        [normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)]), None))


def json_metaspace():
    for scheme in "first", "always", "never":
        for split in False, True:
            t = characters(None, pre_tokenizers.Metaspace(MARK, scheme, split),
                           scheme != "never")
            check_characters(f"metaspace-{scheme}-{split}.json", t)


def json_gemma():
    check_characters("gemma.json", characters(
        normalizers.Replace(" ", MARK),
        pre_tokenizers.Split(" ", "merged_with_previous"), False))


def in_order(text, users):
    """[token or text] as llama.cpp cuts a text: the longest token first."""
    parts = [text]
    for user in sorted(users, key=lambda u: -len(u.encode())):
        cut = []
        for part in parts:
            if part in users:
                cut.append(part)
                continue
            pieces = part.split(user)
            cut += [p for piece in pieces for p in (piece, user)][:-1]
        parts = cut
    return [p for p in parts if p]


def overlapping():
    """User-defined tokens of GGUF that overlap."""
    users = ["ab", "bcd", "abc", "dabc", "a", "aaa", "bb", "<|im|>", "|>b", "éa"]
    vocab, merges = trained()
    tokens = sorted(vocab, key=vocab.get) + users
    write_gguf("users.gguf", model="gpt2", pre="gpt-2", tokens=tokens,
               merges=[" ".join(m) for m in merges],
               token_type=[4 if i >= len(vocab) else 3 if i < 2 else 1
                           for i in range(len(tokens))])
    ids_of = plain(byte_level([GPT2]))

    def want(text):
        return [i for part in in_order(text, users)
                for i in ([tokens.index(part, len(vocab))] if part in users
                          else ids_of(part))]
    inputs = texts(18, 600, ["a", "b", "c", "d", "<|im|>", "é", "x"])
    for text, (ids, _) in zip(inputs, tokenize("users.gguf", 0, inputs)):
        same(f"tokens of {text[:300]!r}", ids, want(text))


# Turns in chat templates.

def turns(name, t, path):
    """What users and systems say, with names of control tokens in it or not."""
    template, control = chats.CHATS[name]
    t.add_special_tokens([AddedToken(s, normalized=False) for s in control])
    t.save(path)
    with open("chat.jinja", "w", encoding="utf-8") as f:
        f.write(template)
    said = texts(17, 60)[-60:] + [" ", "\n\n", " a\u3000", "\u0301a"]
    said = list(zip([None, "You help.", " be\n", ""] * 16, said))
    inputs = [user if system is None else f"{system}\x02{user}"
              for system, user in said]
    got = tokenize(path, 0, inputs, "chat.jinja")
    for (system, user), (ids, _) in zip(said, got):
        same(f"{name}: tokens of {system!r}, {user!r}", ids, plain(t)(
            chats.render(template, system, user)))
    special = {t.token_to_id(s) for s in control + ["<|begin|>", "<|end|>",
                                                    "<s>", "</s>"]}
    hostile = "".join(control) + "<|begin|><|end|><s></s>"
    for (ids, _), (want, _) in (
            tokenize(path, 0, [user, plain_user], "chat.jinja")
            for user, plain_user in ((hostile, "x"),
                                     (f"{hostile}\x02{hostile}", "x\x02x"))):
        same(f"{name}: control tokens of a user who names them",
             [i for i in ids if i in special],
             [i for i in want if i in special])


def chat(name):
    turns(name, byte_level([QWEN2]), "chat.json")
    if name in ("llama2", "chatml", "mistral-v1", "mistral-v3", "mistral-v7"):
        llama2 = characters(normalizers.Sequence(
            [normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)]), None)
        llama2.post_processor = processors.TemplateProcessing(single="$A")
        turns(name, llama2, "chat.json")


def refused_chats():
    for template, why in chats.REFUSED:
        with open("chat.jinja", "w", encoding="utf-8") as f:
            f.write(template)
        try:
            tokenize("chat.json", 0, ["a"], "chat.jinja")
        except Wrong as wrong:
            if why in str(wrong):
                continue
            raise
        raise Wrong(f"{template} is not refused")


CHECKS = [(f"tokenizer.json with the pre-tokenizer of {name}",
           lambda name=name: json_byte_level(name))
          for name in ("llama-bpe", "qwen2", "tekken", "gpt-2", "smollm")]
CHECKS += [(f"text that {name} cuts, with merges over the bounds of words,",
            lambda name=name: cut(name))
           for name in ("llama-bpe", "qwen2", "tekken", "gpt-2", "smollm")]
CHECKS += [(f"GGUF metadata with the pre-tokenizer {name}",
            lambda name=name: gguf_byte_level(name)) for name in STAGES]
CHECKS += [
    ("tokens that were added to a vocabulary", added_tokens),
    ("tokenizer.json that normalises its text", normalised),
    ("a space before a text in bytes", prefix_space),
    ("tokenizer.model", sentencepiece_model),
    ("tokenizer.model with symbols of its user", sentencepiece_user),
    ("tokenizer.model without bytes for unknown characters",
     sentencepiece_unknown),
    ("tokenizer.model that removes extra spaces", sentencepiece_trim),
    ("tokenizer.model without a space before the text",
     sentencepiece_no_prefix),
    ("GGUF metadata of a SentencePiece model", sentencepiece_gguf),
    ("tokenizer.json in the style of Llama 2", json_llama2),
    *((f"tokenizer.json in the style of {name} with random added tokens",
       lambda name=name: random_added(name))
      for name in ("llama2", "metaspace", "gemma", "llama3", "qwen", "gpt2")),
    ("tokenizer.json with Metaspace", json_metaspace),
    ("tokenizer.json in the style of Gemma", json_gemma),
]

CHECKS += [("GGUF metadata with tokens of a user that overlap", overlapping)]
CHECKS = [(f"{title} gives the tokens of its own library", check)
          for title, check in CHECKS]
CHECKS += [(f"a turn in the chat template {name} has the tokens of what Jinja "
            "makes of it", lambda name=name: chat(name))
           for name in chats.CHATS]
CHECKS += [("other chat templates are refused by their names", refused_chats)]
TEXTS = corpus()
GGUF = load_gguf_writer()
print(f"1..{len(CHECKS)}")
for number, (title, check) in enumerate(CHECKS, 1):
    try:
        check()
        print(f"ok {number} - {title}", flush=True)
    except Exception:
        print(f"not ok {number} - {title}")
        print("# " + traceback.format_exc().replace("\n", "\n# "), flush=True)
