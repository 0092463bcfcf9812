#!/bin/sh
# SPDX-License-Identifier: MIT
# Files of other writers load in weir with the same tensors, bytes and metadata,
# and other readers find in weir's files what weir finds. t/interop/main.py compares.
. "${0%/*}/../../cli.inc"

# Those of `./bootstrap check` are in build/python.
for python in ${PYTHON:+"$PYTHON"} "$builddir/python/bin/python" python3; do
	if "$python" -c 'import gguf, numpy, safetensors' 2>"$tmp/why"; then
		cd "$tmp" || exit 1
		"$python" -B "$srcdir/t/interop/main.py"
		exit
	fi
done
skip_all "no Python with gguf, numpy and safetensors: $(tail -n 1 "$tmp/why");" \
	'./bootstrap check installs them'
