#!/bin/sh
# SPDX-License-Identifier: MIT
# compile.sh NVCC FILE.cu: write the PTX of the kernels, as it is kept here.
# Comments and the compiler's version are left out, so that another nvcc 13
# writes the same text if it makes the same code.
set -e
"$1" -arch=compute_80 -ptx -O3 -o - "$2" |
	sed -e 's/^\.version .*/.version 7.4/' -e '/^\/\//d' -e 's/[ 	]*$//'
