#!/bin/sh
# SPDX-License-Identifier: MIT
# text/ makes the tokens that the libraries tokenizers and sentencepiece make of
# the same texts with the same vocabularies. t/interop/text.py trains these.
. "${0%/*}/../tap.inc"

program=$builddir/t/tokenize
test -x "$program" || skip_all 't/tokenize is not built'

# Those of `./bootstrap check` are in build/python.
for python in ${PYTHON:+"$PYTHON"} "$builddir/python/bin/python" python3; do
	if "$python" -c 'import jinja2, sentencepiece, tokenizers' 2>"$tmp/why"; then
		cd "$tmp" || exit 1
		"$python" -B "$srcdir/t/interop/text.py" "$program" "$srcdir"
		exit
	fi
done
skip_all "no Python with jinja2, sentencepiece and tokenizers:" \
	"$(tail -n 1 "$tmp/why"); ./bootstrap check installs them"
