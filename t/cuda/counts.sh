#!/bin/sh
# SPDX-License-Identifier: MIT
# counts.sh NVCC PROGRAM: the table of what kernels do, from what PROGRAM
# prints. It depends on the compiler, whose version is in the first line.
"$1" --version | sed -n 's/^Cuda compilation.* V/# nvcc /p'
printf '%-16s %-20s %6s %8s %7s %8s %7s %7s %7s %6s %7s\n' '# kernel' graph \
	blocks instr. loads sectors stored shared conflic barr. weights
"$2" | LC_ALL=C sort
