#!/bin/sh
# SPDX-License-Identifier: MIT
# weir convert against transformers and llama.cpp: models that transformers makes
# and trains become GGUF, which llama.cpp runs to the same text, and come back.
# t/llama/real.py makes them and compares. $WEIR_T_MODELS_PYTHON is a Python with
# torch, transformers, tokenizers, sentencepiece, gguf and, for llama.cpp,
# llama_cpp; $WEIR_T_LLAMA_CPP may be the folder of llama.cpp's sources.
. "${0%/*}/../cli.inc"

test "$WEIR_T_MODELS_PYTHON" ||
	skip_all 'WEIR_T_MODELS_PYTHON names no Python; ./bootstrap check-models does'
"$WEIR_T_MODELS_PYTHON" -c \
	'import gguf, sentencepiece, tokenizers, torch, transformers' \
	2>"$tmp/why" ||
	skip_all "$WEIR_T_MODELS_PYTHON lacks a package: $(tail -n 1 "$tmp/why")"
cd "$tmp" || exit 1
"$WEIR_T_MODELS_PYTHON" -B "$srcdir/t/llama/real.py" "$srcdir" \
	${WEIR_T_LLAMA_CPP:+"$WEIR_T_LLAMA_CPP"}
