#!/bin/sh
# SPDX-License-Identifier: MIT
# The reference readers, safetensors and gguf of PyPI, find what weir has saved.
. "${0%/*}/../../tap.inc"

program=$(cd "$builddir/t/model/save" && pwd)/random-model
# Those of `./bootstrap check` are in build/python.
for python in ${PYTHON:+"$PYTHON"} "$builddir/python/bin/python" python3; do
	if "$python" -c 'import gguf, numpy, safetensors' 2>"$tmp/why"; then
		cd "$tmp" || exit 1
		"$python" -B "$srcdir/t/model/save/reference.py" "$program"
		exit
	fi
done
skip_all "no Python with gguf, numpy and safetensors: $(tail -n 1 "$tmp/why");" \
	'./bootstrap check installs them'
