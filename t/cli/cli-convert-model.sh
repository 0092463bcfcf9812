#!/bin/sh
# SPDX-License-Identifier: MIT
# weir convert between the files of Hugging Face and GGUF: the tensors are those
# of another writer, and weir run writes the same text. t/llama/convert.py makes
# the models, and compares.
. "${0%/*}/../cli.inc"

# Those of `./bootstrap check` are in build/python.
for python in ${PYTHON:+"$PYTHON"} "$builddir/python/bin/python" python3; do
	if "$python" -c 'import gguf, numpy' 2>"$tmp/why"; then
		cd "$tmp" || exit 1
		"$python" -B "$srcdir/t/llama/convert.py"
		exit
	fi
done
skip_all "no Python with gguf and numpy: $(tail -n 1 "$tmp/why");" \
	'./bootstrap check installs them'
