# SPDX-License-Identifier: MIT
"""Plug-ins with which inference engines load models through weir.

They are found by the engines when weir is installed. ``weir.engines.vllm`` is
``--load-format weir`` of vLLM, ``weir.engines.sglang`` is ``--load-format
private`` of SGLang.
"""
