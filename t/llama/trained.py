# SPDX-License-Identifier: MIT
"""Small models that transformers makes, trains and writes.

They have learnt the texts of this tree by heart, so the next token is seldom in
doubt: programs that round differently write the same text. Tokenizers are trained
on the same texts.
"""
import glob
import os

import sentencepiece
import torch
import transformers
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,
                        normalizers, pre_tokenizers, processors, trainers)

TOKENS = 512
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + "
          "'\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
          "{% endif %}")


def texts(tree):
    files = sorted(glob.glob(os.path.join(tree, "lib", "*", "README.md")))
    return [open(path, encoding="utf-8").read()[:2000] for path in files[:3]]


def byte_level(tree, pattern, specials, bos=None, normalizer=None,
               whole_words=False):
    t = Tokenizer(models.BPE(ignore_merges=whole_words))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(False, use_regex=False)])
    t.normalizer = normalizer
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(texts(tree), trainers.BpeTrainer(
        vocab_size=TOKENS - len(specials), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_special_tokens([AddedToken(s, special=True, normalized=False)
                          for s in specials])
    if bos:
        t.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single=f"{bos} $A", pair=f"{bos} $A {bos} $B",
                special_tokens=[(bos, t.token_to_id(bos))])])
    return t


def write_llama3(tree, folder):
    specials = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
                "<|end_header_id|>", "<|eot_id|>"]
    t = byte_level(tree, LLAMA3, specials, specials[0], whole_words=True)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=t, bos_token=specials[0], eos_token=specials[-1],
        model_max_length=256).save_pretrained(folder)
    ids = [t.token_to_id(s) for s in specials]
    return {"bos_token_id": ids[0], "eos_token_id": [ids[1], ids[4]]}


def write_qwen(tree, folder):
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    t = byte_level(tree, QWEN2, specials, normalizer=normalizers.NFC())
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=t, eos_token=specials[2], pad_token=specials[0],
        chat_template=CHATML, model_max_length=256).save_pretrained(folder)
    return {"bos_token_id": t.token_to_id(specials[0]),
            "eos_token_id": t.token_to_id(specials[2]),
            "pad_token_id": t.token_to_id(specials[0])}


def write_llama2(tree, folder):
    """tokenizer.model by sentencepiece, and what transformers makes of it."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "tokenizer")
    corpus = os.path.join(folder, "corpus.txt")
    with open(corpus, "w", encoding="utf-8") as f:
        f.write("\n".join(texts(tree)))
    sentencepiece.SentencePieceTrainer.train(
        input=corpus, model_prefix=path, model_type="bpe", vocab_size=TOKENS,
        byte_fallback=True, character_coverage=0.999,
        normalization_rule_name="identity", remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=True, max_sentence_length=100000,
        minloglevel=2)
    os.remove(corpus)
    os.remove(path + ".vocab")
    transformers.LlamaTokenizer.from_pretrained(folder).save_pretrained(folder)
    return {"bos_token_id": 1, "eos_token_id": 2}


SIZES = {"vocab_size": TOKENS, "hidden_size": 256, "intermediate_size": 512,
         "num_hidden_layers": 2, "num_attention_heads": 8,
         "num_key_value_heads": 4, "max_position_embeddings": 256}
ROPE = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
        "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32}
FAMILIES = {
    "llama3": ("Llama", write_llama3, {"rope_parameters": ROPE}),
    "llama2": ("Llama", write_llama2, {}),
    "mistral": ("Mistral", write_llama2, {"sliding_window": None}),
    "qwen2": ("Qwen2", write_qwen, {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3", write_qwen, {"head_dim": 64}),
}


def train(model, tokenizer, tree, steps):
    rows = torch.tensor(sum((tokenizer(t, verbose=False).input_ids
                             for t in texts(tree)), []))
    best = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        at = torch.randint(len(rows) - 65, (16,))
        batch = torch.stack([rows[i:i + 64] for i in at])
        loss = model(input_ids=batch, labels=batch).loss
        best.zero_grad()
        loss.backward()
        best.step()
    return loss.item()


def write(name, tree, folder, steps=120, shard="300KB"):
    """The loss of its last step."""
    torch.manual_seed(7)
    torch.set_num_threads(1)
    family, write_tokenizer, changed = FAMILIES[name]
    ids = write_tokenizer(tree, folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    config = getattr(transformers, family + "Config")(
        **{**SIZES, **ids, **changed})
    model = getattr(transformers, family + "ForCausalLM")(config)
    loss = train(model, tokenizer, tree, steps)
    model.generation_config.eos_token_id = ids["eos_token_id"]
    model.to(torch.bfloat16).save_pretrained(folder, max_shard_size=shard)
    return loss
