#!/bin/sh
# SPDX-License-Identifier: MIT
# compile.sh NVCC TOP FILE.cu OUT: compile kernels to OUT.ptx and OUT.ptxz, the
# same compressed by gzip, and from that to OUT.cubins, a compressed image with
# code for several GPUs. OUT.log has what ptxas says about each kernel.
#
# The PTX is labelled as version 7.4, so that drivers since CUDA 11.4 take it;
# nvcc labels it as its own version. ptxas refuses what 7.4 does not have. The
# pragma is a hint of 8.3: which bytes of a load are used.
set -e
nvcc=$1 top=$2 source=$3 out=$4
trap 'rm -f "$out.new"' EXIT
trap 'exit 1' HUP INT TERM
"$nvcc" -arch=compute_80 -ptx -O3 -Werror all-warnings -I"$top/include" \
	-I"$top/lib" -o "$out.new" "$source"
sed -e 's/^\.version .*/.version 7.4/' -e '/\.pragma "used_bytes_mask/d' \
	"$out.new" >"$out.ptx"
gzip -9 -n <"$out.ptx" >"$out.ptxz"
set --
for gpu in 80 86 89 90 100 120; do
	set -- "$@" -gencode "arch=compute_$gpu,code=sm_$gpu"
done
"$nvcc" -fatbin -compress-mode=size -Xptxas -v "$@" -o "$out.cubins" \
	"$out.ptx" >"$out.log" 2>&1 || {
	cat "$out.log" >&2
	rm -f "$out.cubins"
	exit 1
}
