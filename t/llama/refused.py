# SPDX-License-Identifier: MIT
"""Models that examples/llama refuses, for main.py.

Each case: a title, a function that writes the model at a path, parts of the
sentence; perhaps the options and tokens of the program.
"""
import json
import os

import numpy
from gguf import GGUFValueType as Value

from models import (ATTENTION, LINEAR, MISTRAL, QWEN2, QWEN3, YARN, shape,
                    write_gguf, write_hf)


def key(name, value, kind=Value.UINT32, **changed):
    """A GGUF file with another value of a key; None: without it."""
    new = None if value is None else (value, kind)
    return lambda path: write_gguf(path + ".gguf", shape(**changed),
                                   keys={name: new})


def real(name, value, **changed):
    return key(name, value, Value.FLOAT32, **changed)


def gguf(changed=(), **how):
    return lambda path: write_gguf(path + ".gguf", shape(**dict(changed)),
                                   **how)


def member(name, value, **changed):
    """A config.json with another value."""
    return members({name: value}, **changed)


def members(values, **changed):
    return lambda path: write_hf(path, shape(**changed), config=values)


def yarn(**parameters):
    return member("rope_scaling", {**YARN, **parameters})


def config(text):
    def write(path):
        write_hf(path, shape())
        file = os.path.join(path, "config.json")
        if text is None:
            os.remove(file)
        else:
            with open(file, "w") as f:
                f.write(text)
        return path
    return write


def no_matrix(path):
    return write_hf(path, shape(), drop=["output.weight"])


VECTOR = numpy.zeros(64, numpy.float32)

CASES = [
    ("an embedding length that is not that of the tensors",
     key("embedding_length", 128), ["attn_norm.weight'", "[64]", "[128]"]),
    ("a feed-forward length that is not that of the tensors",
     key("feed_forward_length", 192), ["ffn_gate", "[160, 64]", "[192, 64]"]),
    ("a vocabulary that is not that of the embeddings",
     key("vocab_size", 97), ["token_embd.weight'", "[96, 64]", "[97, 64]"]),
    ("a tokenizer that has more tokens than the embeddings",
     gguf(words=97, keys={"vocab_size": None}), ["[96, 64]", "[97, 64]"]),
    ("more layers than there are, and names a missing tensor",
     key("block_count", 3), ["no tensor 'blk.2.attn_norm.weight'"]),
    ("fewer layers than there are, and names a tensor that is left",
     key("block_count", 1), ["'blk.1.attn_norm.weight'", "1 layers"]),
    ("far more layers than tensors",
     key("block_count", 2**31 - 1), ["2147483647 layers", "only 21 tensors"]),
    ("a number of layers that is no 32-bit number",
     key("block_count", 2**63, Value.UINT64), ["9223372036854775808"]),
    ("no layers", key("block_count", 0), ["the number of layers is 0"]),
    ("no heads", key("attention.head_count", 0), ["64", "0 heads"]),
    ("heads that do not divide the embedding",
     key("attention.head_count", 5), ["64", "5 heads"]),
    ("another number of heads than the tensors have",
     key("attention.head_count", 8), ["attn_k.weight'", "[32, 64]",
                                      "[16, 64]"]),
    ("KV heads that do not divide the heads",
     key("attention.head_count_kv", 3), ["4 heads", "3 KV heads"]),
    ("no KV heads", key("attention.head_count_kv", 0), ["KV heads is 0"]),
    ("a key that is missing", key("feed_forward_length", None),
     ["no llama.feed_forward_length"]),
    ("no epsilon", key("attention.layer_norm_rms_epsilon", None), ["epsilon"]),
    ("a number that is a string",
     key("block_count", "2", Value.STRING), ["block_count is not an integer"]),
    ("a negative number", key("block_count", -2, Value.INT32), ["is -2"]),
    ("another architecture", gguf(arch="gpt2"), ["'gpt2'", "'llama'",
                                                 "'qwen2'", "'qwen3'"]),
    ("a mixture of experts", key("expert_count", 8), ["8 experts"]),
    ("an unknown scaling of RoPE",
     key("rope.scaling.type", "longrope", Value.STRING), ["'longrope'"]),
    ("a scaling of RoPE by a negative factor",
     real("rope.scaling.factor", -2.0), ["factor of RoPE is -2"]),
    ("a magnitude of RoPE that is 0",
     real("rope.scaling.attn_factor", 0.0), ["attention factor", "is 0"]),
    ("a type of scaling that is a number",
     key("rope.scaling.type", 1), ["scaling.type is not a string"]),
    ("YaRN's parameters that llama.cpp would ignore",
     real("rope.scaling.yarn_beta_fast", 16.0, rope=YARN),
     ["llama.rope.scaling.yarn_beta_fast is 16", "does not know"]),
    ("a magnitude of YaRN that llama.cpp would ignore",
     real("rope.scaling.yarn_attn_factor", 1.5, rope=YARN),
     ["llama.rope.scaling.yarn_attn_factor is 1.5"]),
    ("more rotated dimensions than a head has",
     key("rope.dimension_count", 32), ["is 32", "has 16"]),
    ("fewer rotated dimensions than a head has",
     key("rope.dimension_count", 8, **QWEN2), ["is 8", "has 16"]),
    ("an odd number of rotated dimensions",
     gguf({"head": 14}, keys=dict.fromkeys(
         ("attention.key_length", "attention.value_length",
          "rope.dimension_count"), (15, Value.UINT32))),
     ["15 dimensions", "15, the length"]),
    ("a key with a number that is not known",
     real("logit_scale", 0.25), ["llama.logit_scale is 0.25", "does not know"]),
    ("a key with a number of another architecture's names, if it is its own",
     real("attention.scale", 0.5, **QWEN3), ["qwen3.attention.scale is 0.5"]),
    ("a key with a string that is not known",
     key("hidden_activation", "gelu", Value.STRING),
     ["llama.hidden_activation is 'gelu'"]),
    ("a key with a list that is not known",
     gguf(add=lambda out: out.add_array("llama.rope.dimension_sections",
                                        [1, 2, 3])),
     ["llama.rope.dimension_sections is an array of 3"]),
    ("attention to later tokens",
     key("attention.causal", False, Value.BOOL),
     ["llama.attention.causal is false"]),
    ("a window of some layers of Qwen2",
     key("attention.sliding_window", 5, **QWEN2),
     ["qwen2.attention.sliding_window is 5", "context 256"]),
    ("a negative window",
     key("attention.sliding_window", -1, Value.INT32), ["window of -1"]),
    ("values that are longer than keys",
     key("attention.value_length", 32), ["keys of 16", "values of 32"]),
    ("a tensor that is missing", gguf(drop=["blk.1.ffn_down.weight"]),
     ["no tensor 'blk.1.ffn_down.weight'"]),
    ("a tensor that would be ignored",
     gguf(tensors={"blk.0.attn_norm.bias": VECTOR}),
     ["'blk.0.attn_norm.bias'"]),
    ("a bias that only a later layer has",
     gguf(tensors={"blk.1.attn_q.bias": VECTOR}), ["'blk.1.attn_q.bias'"]),
    ("a bias that a later layer lacks",
     gguf(tensors={"blk.0.attn_q.bias": VECTOR}),
     ["no tensor 'blk.1.attn_q.bias'"]),
    ("a bias of another length", gguf(tensors={
        f"blk.{i}.attn_k.bias": VECTOR for i in (0, 1)}),
     ["blk.0.attn_k.bias'", "[64]", "[32]"]),
    ("Qwen2 without a bias", gguf(QWEN2, drop=["blk.1.attn_v.bias"]),
     ["no tensor 'blk.1.attn_v.bias'"]),
    ("Qwen2 with another bias",
     gguf(QWEN2, tensors={"blk.0.attn_output.bias": VECTOR}),
     ["'blk.0.attn_output.bias'"]),
    ("Qwen3 without a norm of its heads",
     gguf(QWEN3, drop=["blk.0.attn_k_norm.weight"]),
     ["no tensor 'blk.0.attn_k_norm.weight'"]),
    ("Qwen3 with a bias", gguf({**QWEN3, "biases": ATTENTION}),
     ["'blk.0.attn_q.bias'"]),
    ("Llama with norms of its heads", gguf({"norms": True}),
     ["'blk.0.attn_q_norm.weight'"]),
    ("factors of RoPE of LongRoPE",
     gguf(tensors={"rope_factors_long.weight": VECTOR}),
     ["'rope_factors_long.weight'"]),
    ("a token outside of the vocabulary", gguf(), ["token 96", "has 96"], (),
     (95, 96)),
    ("more tokens than the context has", gguf(), ["257 tokens", "of 256"],
     ("-n", 256), (1, 2)),
    ("more devices than layers", gguf(), ["3 devices for 2 layers"],
     ("-d", "CPU:devices=3,CPU1,CPU2")),
    ("a device that is in the list twice", gguf(), ["'CPU'", "twice"],
     ("-d", "CPU,CPU")),
    ("a device that does not exist", gguf(), ["no device 'CPU7'"],
     ("-d", "CPU,CPU7")),
    ("a budget that is less than what always stays in memory", gguf(),
     ["budget of 1280 bytes", "1280 always"], ("-w", 1280)),
    ("a budget without room for the largest tensor", gguf(), ["40960"],
     ("-w", 30000)),
    ("safetensors without a config.json", config(None), ["config.json"]),
    ("a config.json that is not JSON", config("{"), ["config.json: line 1"]),
    ("a config.json that is a list", config("[]"), ["model_type"]),
    ("another type of model", member("model_type", "gemma"),
     ["model_type is 'gemma'", "'llama'", "'mistral'"]),
    ("another activation", member("hidden_act", "gelu"), ["'gelu'", "'silu'"]),
    ("biases that a type of model does not have",
     member("attention_bias", True, **MISTRAL),
     ["attention_bias is true", "'mistral'"]),
    ("biases that the files do not have", member("mlp_bias", True),
     ["no tensor 'model.layers.0.mlp.gate_proj.bias'"]),
    ("a truth that is a string", member("tie_word_embeddings", "yes"),
     ["tie_word_embeddings is not true or false"]),
    ("a member that is not known", member("embedding_multiplier", 12.0),
     ["config.json: embedding_multiplier is 12.0", "does not know it"]),
    ("a member that is not known, whose value is long",
     member("quantization_config", {"quant_method": "fp8", "x": [7] * 99}),
     ['quantization_config is {"quant_method":"fp8"']),
    ("a feature that is not known", member("rope_interleaved", True),
     ["rope_interleaved is true"]),
    ("biases by another name", member("bias", True), ["bias is true"]),
    ("attention to later tokens in config.json", member("is_causal", False),
     ["is_causal is false"]),
    ("a list of layers that is not known", member("mlp_only_layers", [1]),
     ["mlp_only_layers is [1]"]),
    ("a part of a head that is rotated", member("partial_rotary_factor", 0.5),
     ["partial_rotary_factor is 0.5"]),
    ("a window of a model whose type has none", member("sliding_window", 5),
     ["sliding_window is 5", "context 256", "'llama'"]),
    ("a window that is no number", member("sliding_window", "5", **MISTRAL),
     ["sliding_window is not an integer"]),
    ("a negative window in config.json",
     member("sliding_window", -5, **MISTRAL), ["window of -5"]),
    ("layers without a window after layers with one", members({
        "use_sliding_window": True, "layer_types": [
            "sliding_attention", "full_attention"]}, **QWEN2),
     ["layer_types"]),
    ("layers with a window that is not used",
     member("layer_types", ["full_attention", "sliding_attention"], **QWEN3),
     ["layer_types"]),
    ("a list of types for another number of layers",
     member("layer_types", ["full_attention"] * 3, **QWEN3),
     ["layer_types is not a list of 2"]),
    ("a hidden size that is not that of the tensors",
     member("hidden_size", 128), ["[64]", "[128]"]),
    ("a real number of layers", member("num_hidden_layers", 1.5),
     ["num_hidden_layers is not an integer"]),
    ("an unknown scaling of RoPE in config.json",
     member("rope_scaling", dict(LINEAR, rope_type="longrope")),
     ["'longrope'"]),
    ("a scaling of RoPE that is a string", member("rope_scaling", "yarn"),
     ["rope_scaling is not an object"]),
    ("a linear scaling without a factor",
     member("rope_scaling", {"type": "linear"}), ["factor of RoPE is 0"]),
    ("YaRN without a factor", yarn(factor=None), ["yarn", "factor 0"]),
    ("a negative magnitude of YaRN", yarn(attention_factor=-1.0),
     ["attention factor", "is -1"]),
    ("a parameter of RoPE that is not known", yarn(mrope_section=[1, 2]),
     ["rope_scaling.mrope_section is [1,2]", "does not know it"]),
    ("a parameter of another type of scaling", yarn(low_freq_factor=1.0),
     ["rope_scaling.low_freq_factor is 1.0"]),
    ("parameters of RoPE for each type of layers",
     members({"rope_parameters": {"full_attention": {"rope_theta": 5.0}},
              "rope_scaling": None}),
     ["rope_parameters.full_attention is {"]),
    ("parameters of Llama 3 that do not fit",
     member("rope_scaling", {"rope_type": "llama3", "factor": 8.0,
                             "low_freq_factor": 4.0, "high_freq_factor": 1.0,
                             "original_max_position_embeddings": 32}),
     ["low 4, high 1"]),
    ("an output matrix that is missing", no_matrix,
     ["no tensor 'lm_head.weight'"]),
]
