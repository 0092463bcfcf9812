#!/bin/sh
# SPDX-License-Identifier: MIT
# flight.sh RESOURCES: for each mat-vec the bytes that are on their way to an SM
# of each GPU: those of the blocks that fit by registers and shared memory, and
# of all units of their rings but the one that is computed with. RESOURCES is
# lib/cuda/kernels/resources.txt; lib/cuda/kernels/matvec.cuh has the shapes.
awk '
	BEGIN {
		n = split("80 86 89 90 100 120", gpu)
		split("164 100 100 228 228 100", room)
		unit["f32"] = unit["f16"] = unit["bf16"] = 1024
		unit["q8_0"] = 1088
		unit["q4_0"] = unit["q4_k"] = 576
		unit["q6_k"] = 840
		wide["q6_k"] = 2
		printf "%-16s", "# kernel"
		for (i = 1; i <= n; i++)
			printf " %7s", "sm_" gpu[i]
		print ""
	}
	/^weir_kernel_matvec_.*_[1248] / {
		name = dtype = $1
		sub("weir_kernel_", "", name)
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
		if (stages < 2 || stages != int(stages)) {
			print name, "has", stages, "stages"
			next
		}
		printf "%-16s", name
		for (i = 1; i <= n; i++) {
			registers = int(($(i + 1) + 7) / 8) * 8 * 128
			blocks = int(65536 / registers)
			fits = int(room[i] * 1024 / ($8 + 1024))
			if (fits < blocks)
				blocks = fits
			printf " %7d", blocks * 4 * (stages - 1) * rows * \
				unit[dtype]
		}
		print ""
	}' "$1"
