#!/bin/sh
# SPDX-License-Identifier: MIT
# The PTX of the stand-in's test kernels, and of a bench, is what the compiler
# makes of their sources. Only with the nvcc that made it: NVCC, or the one in PATH.
. "${0%/*}/../tap.inc"

ptx=$srcdir/t/fakecuda/ptx
nvcc=${NVCC:-nvcc}
command -v "$nvcc" >/dev/null || skip_all 'there is no nvcc (NVCC=...)'
made=$(sed -n '1s/^\/\/ nvcc //p' "$ptx/kernels.ptx")
here=$("$nvcc" --version | sed -n 's/^Cuda compilation.* V//p')
test "$here" = "$made" ||
	skip_all "the PTX was made by nvcc $made, and here is $here"

plan 3
for file in "$ptx/kernels" "$ptx/faults" "$srcdir/bench/read"; do
	name=${file##*/}
	sh "$ptx/compile.sh" "$nvcc" "$file.cu" >"$tmp/$name.ptx" 2>&1
	check "$name.ptx is what nvcc makes of $name.cu" \
		cmp "$tmp/$name.ptx" "$file.ptx"
done
finish
