#!/bin/sh
# SPDX-License-Identifier: MIT
# The kernels as they are built: what they need of a GPU, their PTX, their size.
. "${0%/*}/../tap.inc"

kernels=$builddir/lib/cuda/kernels
module=$builddir/lib/cuda/.libs/weir-cuda.so
ls "$kernels"/*.cubins >/dev/null 2>&1 || skip_all 'they were built without nvcc'
nvcc=$(sed -n 's/^NVCC = //p' "$builddir/Makefile")

# The files of lib/cuda and the tests that the README names for each .cu file.
named()
{
	sed -n 's/^| *\(`[^|]*\.cu`[^|]*\)|[^|]*|\([^|]*\)|\([^|]*\)|$/\1|\2|\3/p' \
		"$srcdir/lib/cuda/kernels/README.md" |
		tr -d '` ' | while IFS='|' read -r files launched tests; do
		for name in $(echo "$launched" | tr , ' '); do
			case $name in
			*.c) echo "lib/cuda/$name" ;;
			*) echo "lib/cuda/operation_$name.c" ;;
			esac
		done
		test "$launched" || echo "$files: launched by nothing"
		for name in $(echo "$tests" | tr , ' '); do
			grep -q "D%/cuda-$name\.t" "$srcdir/t/cuda/local.mk" ||
				echo "$files: no test cuda-$name.t"
		done
		test "$tests" || echo "$files: no test"
	done
}

# Those that are not there, and .cu files without a row.
unnamed()
{
	named | while read -r name; do
		test -e "$srcdir/$name" || echo "$name"
	done
	for file in "$srcdir"/lib/cuda/kernels/*.cu; do
		grep -q "^| .*\`${file##*/}\`.* | .* | .* | .* |$" \
			"$srcdir/lib/cuda/kernels/README.md" || echo "$file"
	done
}

plan 6
made=$(sed -n '1s/^# nvcc //p' "$srcdir/lib/cuda/kernels/resources.txt")
here=$("$nvcc" --version | sed -n 's/^Cuda compilation.* V//p')
if test "$here" = "$made"; then
	sh "$srcdir/lib/cuda/kernels/resources.sh" "$nvcc" "$kernels"/*.log \
		>"$tmp/resources"
	check 'resources.txt is what ptxas says (make resources)' \
		diff "$srcdir/lib/cuda/kernels/resources.txt" "$tmp/resources"
else
	skip 1 "resources.txt is of nvcc $made, and here is $here"
fi
is "$(cat "$kernels"/*.log | grep 'spill stores' |
	grep -v ' 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads')" \
	'' 'no kernel spills registers, or needs a stack'
is "$(cat "$kernels"/*.log | grep -c 'Compiling entry function')" \
	"$((6 * $(grep -h '^\.visible \.entry' "$kernels"/*.ptx | wc -l)))" \
	'each kernel is compiled for six kinds of GPUs'
is "$(cat "$kernels"/*.ptx | grep '^\.version' | sort -u)" '.version 7.4' \
	'the PTX is of version 7.4'
is "$(test "$(stat -c %s "$module")" -le $((8 << 20)) || stat -c %s "$module")" '' \
	'the module has at most 8 MiB'
is "$(unnamed)" '' 'the README has who launches and what tests each file of kernels'
finish
