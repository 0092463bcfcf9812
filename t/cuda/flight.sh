#!/bin/sh
# SPDX-License-Identifier: MIT
# flight.sh RESOURCES: for each mat-vec the bytes that are on their way to an SM
# of each GPU: those of the blocks that fit by registers and shared memory, and
# of all units of their rings but the one that is computed with. RESOURCES is
# lib/cuda/kernels/resources.txt; lib/cuda/kernels/matvec.cuh has the shapes.
awk '
	function dtypes(names, bytes, rows, fits,   i, n, name)
	{
		n = split(names, name)
		for (i = 1; i <= n; i++) {
			unit[name[i]] = bytes
			wide[name[i]] = rows
			aligned[name[i]] = fits
		}
	}
	BEGIN {
		n = split("80 86 89 90 100 120", gpu)
		split("164 100 100 228 228 100", room)
		# Bytes of a unit; rows of a warp with 4 and 8 columns; whether
		# rows begin at multiples of 16 bytes.
		dtypes("f32 f16 bf16", 1024, 4, 1)
		dtypes("q8_0", 1088, 4, 0)
		dtypes("q4_0", 576, 4, 0)
		dtypes("q4_k", 576, 4, 1)
		dtypes("q5_k", 704, 4, 1)
		dtypes("q6_k", 840, 2, 0)
		dtypes("q4_1", 640, 4, 0)
		dtypes("q5_0", 704, 4, 0)
		dtypes("q5_1", 768, 4, 0)
		dtypes("q2_k", 336, 4, 0)
		dtypes("q3_k", 440, 2, 0)
		dtypes("iq4_nl nvfp4", 576, 4, 0)
		dtypes("iq4_xs mxfp4", 544, 4, 0)
		dtypes("iq1_s", 800, 2, 0)
		dtypes("iq1_m", 896, 2, 0)
		dtypes("iq2_xxs tq2_0", 1056, 2, 0)
		dtypes("iq2_xs", 592, 2, 0)
		dtypes("iq2_s", 656, 2, 0)
		dtypes("iq3_xxs", 784, 2, 0)
		dtypes("iq3_s", 880, 2, 0)
		dtypes("tq1_0", 864, 2, 0)
		dtypes("q1_0 q2_0", 576, 2, 0)
		# Bytes of the grid in shared memory.
		grid["iq1_s"] = grid["iq1_m"] = 8192
		grid["iq2_s"] = 4096
		grid["iq2_xs"] = grid["iq3_s"] = 2048
		grid["iq2_xxs"] = grid["iq3_xxs"] = 1024
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
		if (!(dtype in unit)) {
			print name, "has no row in flight.sh"
			next
		}
		rows = columns > 2 ? wide[dtype] : 2
		slot = unit[dtype]
		if (!aligned[dtype])
			slot = int((slot + 30) / 16) * 16
		stages = ($8 - grid[dtype] - 2 * 4 * rows * columns * 4) / \
			(4 * rows * slot)
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
