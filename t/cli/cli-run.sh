#!/bin/sh
# SPDX-License-Identifier: MIT
# weir run: the text of small random models is that of a reference in numpy.
# t/llama/run.py makes the models, their tokenizers too, and compares.
. "${0%/*}/../cli.inc"

# Those of `./bootstrap check` are in build/python.
for python in ${PYTHON:+"$PYTHON"} "$builddir/python/bin/python" python3; do
	if "$python" -c 'import gguf, numpy' 2>"$tmp/why"; then
		cd "$tmp" || exit 1
		"$python" -B "$srcdir/t/llama/run.py"
		exit
	fi
done
skip_all "no Python with gguf and numpy: $(tail -n 1 "$tmp/why");" \
	'./bootstrap check installs them'
