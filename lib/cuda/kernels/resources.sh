#!/bin/sh
# SPDX-License-Identifier: MIT
# resources.sh NVCC LOG...: the registers of each kernel by GPU, its static
# shared memory and its spills, from what ptxas said when it was compiled. The
# table depends on the compiler, whose version is in the first line.
"$1" --version | sed -n 's/^Cuda compilation.* V/# nvcc /p'
shift
cat "$@" | awk '
/Compiling entry function/ {
	split($0, q, "\047")
	kernel = q[2]
	gpu = q[4]
	sub(/sm_/, "", gpu)
}
/bytes spill stores/ {
	spilled[kernel] += $5 + $9
	stack[kernel] = $1 > stack[kernel] ? $1 : stack[kernel]
}
/Used [0-9]+ registers/ {
	for (i = 1; i <= NF; i++)
		if ($i == "Used")
			used[kernel, gpu] = $(i + 1)
	shared[kernel] += 0
	if (match($0, /[0-9]+ bytes smem/))
		shared[kernel] = substr($0, RSTART, RLENGTH) + 0
	names[kernel] = 1
}
END {
	printf "%-20s", "# kernel"
	n = split("80 86 89 90 100 120", gpus)
	for (i = 1; i <= n; i++)
		printf " %6s", "sm_" gpus[i]
	printf " %7s %6s %6s\n", "shared", "stack", "spills"
	for (kernel in names) {
		line = sprintf("%-20s", kernel)
		for (i = 1; i <= n; i++)
			line = line sprintf(" %6d", used[kernel, gpus[i]])
		printf "%s %7d %6d %6d\n", line, shared[kernel], stack[kernel],
			spilled[kernel] | "LC_ALL=C sort"
	}
}'
