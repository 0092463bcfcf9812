# SPDX-License-Identifier: MIT
"""Kinds of models and of RoPE whose logits main.py compares with the reference.

Each case: a title, "GGUF" or "safetensors", options of write_gguf or write_hf, and
what is changed in the shape.
"""
from gguf import GGMLQuantizationType as Type
from gguf import GGUFValueType as Value

from models import (ATTENTION, LINEAR, LLAMA3, MISTRAL, NULL, QWEN2, QWEN3,
                    YARN)

ALL_MATRICES = (*ATTENTION, "ffn_gate", "ffn_up", "ffn_down")
# Numbers of turns of which each changes the frequencies of the shape.
BETAS = {"beta_fast": 1.5, "beta_slow": 0.2,
         "original_max_position_embeddings": 64}


def real(**values):
    return {"rope." + name.replace("__", "."): (x, Value.FLOAT32)
            for name, x in values.items()}


def gguf(title, keys=(), kind=Type.F32, **changed):
    return title, "GGUF", {"keys": keys, "kind": kind}, changed


def hf(title, config=(), dtype="F32", **changed):
    return title, "safetensors", {"config": config, "dtype": dtype}, changed


def yarn(title, **parameters):
    return hf(title, rope={**YARN, **parameters})


NONE = {"rope.scaling.type": ("none", Value.STRING)}
OF_TYPE = {"rope.scaling.type": ("linear", Value.STRING)}

GGUF_ROPE = [
    gguf("a factor of RoPE without a type", real(scaling__factor=4)),
    gguf("the older name of a factor", real(scale_linear=4)),
    gguf("both names of a factor, of which the newer is used",
         real(scale_linear=4, scaling__factor=2)),
    gguf("a factor that the type none makes ineffective",
         {**NONE, **real(scaling__factor=4)}),
    gguf("a type of scaling without a factor, or with 0, which scale nothing",
         OF_TYPE),
    gguf("a factor of 0", {**OF_TYPE, **real(scaling__factor=0)}),
    gguf("attn_factor without scaling", real(scaling__attn_factor=1.3)),
    gguf("attn_factor with YaRN", real(scaling__attn_factor=0.7), rope=YARN),
    gguf("YaRN whose factor is below 1", rope={**YARN, "factor": 0.5}),
    gguf("YaRN without the original context",
         {"rope.scaling.original_context_length": None}, rope=YARN,
         context=64),
    gguf("keys that change nothing", {
        "attention.causal": (True, Value.BOOL),
        "expert_count": (0, Value.UINT32),
        "expert_weights_scale": (1.0, Value.FLOAT32),
        "logit_scale": (0.0, Value.FLOAT32),
        "rope.scaling.finetuned": (True, Value.BOOL),
        "tensor_data_layout": ("Meta AI original pth", Value.STRING),
        "use_parallel_residual": (False, Value.BOOL),
        **real(scaling__yarn_attn_factor=1, scaling__yarn_beta_fast=32,
               scaling__yarn_beta_slow=1, scaling__yarn_ext_factor=1,
               scaling__yarn_log_multiplier=0)},
         rope=YARN),
]

HF_ROPE = [
    yarn("YaRN's attention_factor", attention_factor=1.5),
    yarn("YaRN's attention_factor as an integer, and a null beta",
         attention_factor=2, beta_fast=None),
    yarn("YaRN's beta_fast and beta_slow", **BETAS),
    yarn("YaRN's beta_fast", **{**BETAS, "beta_slow": 1}),
    yarn("YaRN's mscale and mscale_all_dim", mscale=1.0, mscale_all_dim=0.4),
    yarn("YaRN's mscale alone, which has no effect", mscale=2.0),
    yarn("YaRN without truncation", truncate=False),
    yarn("YaRN without truncation, and betas", truncate=False, **BETAS),
    yarn("YaRN whose factor is below 1", factor=0.5),
    yarn("keys that change nothing in YaRN", finetuned=True, attn_factor=1,
         extrapolation_factor=1.0, partial_rotary_factor=1.0),
    hf("YaRN without the original context",
       rope={"rope_type": "yarn", "factor": 4.0}, context=64),
    hf("Llama 3's scaling without the original context", rope={
        k: v for k, v in LLAMA3.items() if not k.startswith("original")},
       context=64),
    hf("dynamic scaling, which changes nothing within the context",
       rope={"rope_type": "dynamic", "factor": 2.0}),
    hf("the default type, with a base of its own",
       {"rope_scaling": {"rope_type": "default", "rope_theta": 300.0}}),
    hf("rope_scaling, which is used rather than rope_parameters", {
        "rope_scaling": LINEAR, "rope_parameters": dict(
            LLAMA3, rope_theta=500.0)}),
    hf("no scaling, but null", {"rope_scaling": NULL,
                                "rope_parameters": NULL}),
]

WINDOW = {"use_sliding_window": True, "sliding_window": 5}
KINDS = [
    gguf("Llama with all biases", biases=ALL_MATRICES),
    hf("Llama with biases of attention", biases=ATTENTION),
    hf("Llama with all biases", biases=ALL_MATRICES),
    gguf("Llama with a window", {
        "attention.sliding_window": (5, Value.UINT32)}),
    hf("Mistral", **MISTRAL),
    hf("Mistral with a window", {"sliding_window": 5}, **MISTRAL),
    hf("Mistral with a window of a token", {"sliding_window": 1}, **MISTRAL),
    hf("Mistral without a window, and heads of another length",
       {"sliding_window": NULL}, head=24, **MISTRAL),
    gguf("Qwen2", **QWEN2),
    hf("Qwen2", **QWEN2),
    hf("Qwen2 with a window from a layer on", WINDOW, **QWEN2),
    hf("Qwen2 with a window in all layers", {**WINDOW, "max_window_layers": 0},
       **QWEN2),
    hf("Qwen2 with a list of types of layers", {
        **WINDOW, "max_window_layers": 0, "layer_types": [
            "full_attention", "sliding_attention"]}, **QWEN2),
    gguf("Qwen2 with tied embeddings and YaRN", tied=True, rope=YARN, **QWEN2),
    hf("Qwen2 with tied embeddings and YaRN", tied=True, rope=YARN, **QWEN2),
    gguf("Qwen3", **QWEN3),
    hf("Qwen3", **QWEN3),
    hf("Qwen3 with a window from a layer on", WINDOW, **QWEN3),
    gguf("Qwen3 with tied embeddings and YaRN", tied=True, rope=YARN, **QWEN3),
    hf("Qwen3 with biases", biases=ATTENTION, **QWEN3),
    hf("keys that change nothing", {
        "attention_dropout": 0.1, "bos_token_id": 1, "image_token_id": 9,
        "eos_token_id": [2, 3], "initializer_range": 0.02,
        "hidden_dropout_prob": 0.1, "is_llama_config": True,
        "layer_types": ["full_attention"] * 2, "pad_token_id": NULL,
        "pretraining_tp": 1, "pruned_heads": {}, "rope_interleaved": False,
        "sliding_window": 256, "transformers.js_config": {"dtype": "q4"},
        "transformers_version": "5.0", "use_cache": True, "use_mrope": False,
        "some_future_key": NULL, "_name_or_path": "x"}),
    hf("keys of training and of generation, which change nothing", {
        "cache_implementation": "hybrid", "gradient_checkpointing": False,
        "max_seq_len": 2048, "max_seq_length": 2048, "min_new_tokens": 1,
        "min_p": 0.1, "name_or_path": "x", "neftune_noise_alpha": 5,
        "output_router_logits": False, "penalty_alpha": 0.6,
        "renormalize_logits": True, "tokenizer_model_max_length": 4096,
        "tokenizer_padding_side": "left", "trust_remote_code": True,
        "unsloth_fixed": True, "unsloth_version": "2025.1",
        "unsloth_training": {"bits": 4}}),
    hf("keys that do not change how attention is computed, or turn off what "
       "a model lacks", {
           "bias": False, "is_causal": True, "mlp_only_layers": [],
           "qkv_bias": False, "use_flash_attention": True,
           "use_flash_attention_2": True, "use_flash_attn": True,
           "use_qk_norm": False}),
]
ROUNDED = [
    gguf("Qwen2, Q8_0", kind=Type.Q8_0, **QWEN2),
    gguf("Qwen3, F16", kind=Type.F16, **QWEN3),
    hf("Qwen2, BF16", dtype="BF16", **QWEN2),
    hf("Qwen3, BF16", dtype="BF16", **QWEN3),
]
EXACT = GGUF_ROPE + HF_ROPE + KINDS
