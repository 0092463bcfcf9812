#!/bin/sh
# SPDX-License-Identifier: MIT
# A decode of 1,000 positions takes one CUDA graph. Kernels are not executed.
. "${0%/*}/../tap.inc"
. "${0%/*}/../gpu.inc"

ls "$builddir"/lib/cuda/kernels/*.ptx >/dev/null 2>&1 ||
	ls "$srcdir"/lib/cuda/kernels/*.ptx >/dev/null 2>&1 ||
	skip_all 'the kernels were built without nvcc'
test "$fake" || skip_all 'needs the stand-in'
plan 2
check 'bench/step can be built' "$MAKE" -C "$builddir" bench/step
cd "$tmp" || exit 1
with_gpu "$builddir/bench/step" 1000 >steps 2>&1
is "$(sed -n 's/, launched.*//p' steps)" '1 CUDA graph' \
	'steps at 1,000 positions take one CUDA graph' || sed 's/^/# /' steps
finish
