#!/bin/sh
# SPDX-License-Identifier: MIT
# Models at URLs are loaded to a CUDA device (the stand-in's or a real one).
. "${0%/*}/../cli.inc"
. "${0%/*}/../gpu.inc"
. "${0%/*}/../serving.inc"

mkdir modules &&
	cp "$module/weir-cuda.so" "$WEIR_MODULE_PATH/weir-http.so" modules ||
	exit 1
WEIR_MODULE_PATH=$tmp/modules

# loads URL MODEL TITLE: the bytes on the device are those of the files.
loads()
{
	weir load --quiet --digest "$2" >want || exit 1
	works "$3" with_gpu weir load --quiet --digest --device CUDA0 "$1"
	check "$3: with the bytes of the files" cmp out want
}

plan 10
weir synth tiny m.safetensors 2>/dev/null || exit 1
weir synth tiny shards --shards 4 2>/dev/null || exit 1
weir synth tiny m.gguf 2>/dev/null || exit 1
loads "$at/file/m.safetensors" m.safetensors 'a file at a URL is loaded to CUDA0'
loads "$at/file/shards/" shards 'a folder at a URL is loaded to CUDA0'
loads "$at/file/m.gguf" m.gguf 'a GGUF file at a URL is loaded to CUDA0'
WEIR_CACHE=$tmp/cache
export WEIR_CACHE
for how in 'into' 'from'; do
	loads "$at/file/shards/" shards "a folder is loaded to CUDA0, $how the cache"
done
finish
