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

plan 6
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
is "$(awk '/^matvec_.*_[1248] / && $11 != "-"' "$tmp/counts" | wc -l)" 42 \
	'mat-vecs of all dtypes and numbers of columns were counted'
is "$(awk '/^attention_chunks_/ { n++; if ($11 < 90) print }
	END { if (n != 6) print n }' "$tmp/counts")" '' \
	'attention uses at least 90 % of the sectors of k and v that it loads'

# Bytes that are on their way to an SM: blocks that fit, warps, and all units
# but the one that is computed with. kernels/matvec.cuh has the shapes.
is "$(awk '
	BEGIN {
		split("80 86 89 90 100 120", gpu)
		split("164 100 100 228 228 100", room)
		unit["f32"] = unit["f16"] = unit["bf16"] = 1024
		unit["q8_0"] = 1088
		unit["q4_0"] = unit["q4_k"] = 576
		unit["q6_k"] = 840
		wide["q6_k"] = 2
	}
	/^weir_kernel_matvec_.*_[1248] / {
		dtype = $1
		sub("weir_kernel_matvec_", "", dtype)
		columns = dtype
		sub(".*_", "", columns)
		sub("_[1248]$", "", dtype)
		rows = columns > 2 ? 4 : 2
		if (columns > 2 && dtype in wide)
			rows = wide[dtype]
		slot = unit[dtype]
		if (dtype ~ /^q/ && dtype != "q4_k")
			slot = int((slot + 30) / 16) * 16
		stages = ($8 - 2 * 4 * rows * columns * 4) / (4 * rows * slot)
		if (stages < 2 || stages != int(stages))
			print $1, "has", stages, "stages"
		for (i = 1; i <= 6; i++) {
			registers = int(($(i + 1) + 7) / 8) * 8 * 128
			blocks = int(65536 / registers)
			fits = int(room[i] * 1024 / ($8 + 1024))
			if (fits < blocks)
				blocks = fits
			flight = blocks * 4 * (stages - 1) * rows * unit[dtype]
			# HBM needs more than the memory of other GPUs.
			least = gpu[i] == 80 || gpu[i] == 90 || gpu[i] == 100 \
				? 40960 : 24576
			if (flight < least)
				print $1, "sm_" gpu[i], flight, "bytes"
		}
	}' "$resources")" '' \
	'mat-vecs have 40 KiB on their way to each SM of a GPU with HBM'
finish
