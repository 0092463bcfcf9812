#!/bin/sh
# SPDX-License-Identifier: MIT
# Logits of examples/llama equal those of a reference in numpy. t/llama/main.py
# makes small models and compares.
. "${0%/*}/../tap.inc"

program=$builddir/examples/llama/llama
test -x "$program" || skip_all 'examples/llama is not built'

# Those of `./bootstrap check` are in build/python.
for python in ${PYTHON:+"$PYTHON"} "$builddir/python/bin/python" python3; do
	if "$python" -c 'import gguf, numpy' 2>"$tmp/why"; then
		cd "$tmp" || exit 1
		"$python" -B "$srcdir/t/llama/main.py" "$program"
		exit
	fi
done
skip_all "no Python with gguf and numpy: $(tail -n 1 "$tmp/why");" \
	'./bootstrap check installs them'
