#!/bin/sh
# SPDX-License-Identifier: MIT
# What kernels do on fixed shapes: instructions of warps, loads of warps and
# their sectors of 32 bytes, sectors stored, accesses to shared memory and their
# conflicts, barriers, and how much of the sectors of weights is used. A rise
# fails; after a change that is wanted, "make counts" writes the table anew.
. "${0%/*}/../tap.inc"

ls "$builddir"/lib/cuda/kernels/*.cubins >/dev/null 2>&1 ||
	skip_all 'the kernels were built without nvcc'
nvcc=$(sed -n 's/^NVCC = //p' "$builddir/Makefile")
stored=$srcdir/t/cuda/counts.txt
resources=$srcdir/lib/cuda/kernels/resources.txt

plan 7
sh "$srcdir/t/cuda/counts.sh" "$nvcc" "$builddir/t/cuda/counts" \
	>"$tmp/counts" 2>"$tmp/errors"
is "$(cat "$tmp/errors"; sed -n '/^1\.\.0/p' "$tmp/counts")" '' \
	'all graphs are computed'
if test "$(head -n 1 "$stored")" = "$(head -n 1 "$tmp/counts")"; then
	is "$(awk '
		FNR == 1 { file++ }
		/^#/ { next }
		file == 1 { for (i = 3; i <= 10; i++) old[$1, $2, i] = $i }
		file == 2 {
			seen[$1, $2] = 1
			for (i = 3; i <= 10; i++) {
				if (!(($1, $2, i) in old))
					print $1, $2, "is not in counts.txt"
				else if ($i > old[$1, $2, i])
					print $1, $2, "column", i ":", $i,
						"instead of", old[$1, $2, i]
			}
		}' "$stored" "$tmp/counts" | sort -u | head -n 20)" '' \
		'no kernel does more than counts.txt says (make counts)'
else
	skip 1 "counts.txt is of another compiler: $(head -n 1 "$stored")"
fi
is "$(awk '/^matvec_/ && $11 != "-" && $11 < 90' "$tmp/counts")" '' \
	'mat-vecs use at least 90 % of the sectors of weights that they load'
is "$(awk '/^matvec_.*_[1248] .*](x|ids)/ && $11 != "-"' "$tmp/counts" | wc -l)" 196 \
	'mat-vecs of all dtypes and numbers of columns, and of experts, were counted'
is "$(awk '/^attention_chunks_/ { n++; if ($11 < 90) print }
	END { if (n != 7) print n }' "$tmp/counts")" '' \
	'attention uses at least 90 % of the sectors of k and v that it loads'

# Bytes that are on their way to an SM: HBM needs more than other memory.
is "$(sh "$srcdir/t/cuda/flight.sh" "$resources" |
	diff "$srcdir/t/cuda/flight.txt" - 2>&1 | head -n 20)" '' \
	'flight.txt has what registers and shared memory leave (make counts)'
is "$(awk '
	/^#/ { for (i = 3; i <= NF; i++) gpu[i - 1] = $i; next }
	NF != 7 { print; next }
	{
		for (i = 2; i <= NF; i++) {
			least = gpu[i] ~ /_(80|90|100)$/ ? 40960 : 24576
			if ($i < least)
				print $1, gpu[i], $i, "bytes"
		}
	}' "$srcdir/t/cuda/flight.txt")" '' \
	'mat-vecs have 40 KiB on their way to each SM of a GPU with HBM'
finish
