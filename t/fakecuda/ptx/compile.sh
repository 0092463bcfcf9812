#!/bin/sh
# SPDX-License-Identifier: MIT
# compile.sh NVCC FILE.cu: write the PTX of the kernels, as it is kept here. Its
# first line has the version of the compiler, since another writes other code.
# The hash of the file's path in the names of static functions becomes zeros.
set -e
"$1" --version | sed -n 's/^Cuda compilation.* V/\/\/ nvcc /p'
"$1" -arch=compute_80 -ptx -O3 -o - "$2" |
	sed -e 's/^\.version .*/.version 7.4/' -e '/^\/\//d' -e 's/[ 	]*$//' \
		-e 's/_INTERNAL_[0-9a-f]\{8\}_/_INTERNAL_00000000_/g'
