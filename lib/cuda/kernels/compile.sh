#!/bin/sh
# SPDX-License-Identifier: MIT
# compile.sh NVCC TOP FILE.cu OUT: compile kernels to OUT.ptx and OUT.ptxz, the
# same compressed by zstd, and from that to OUT.cubins: code for several GPUs.
# OUT.log has what ptxas says about each kernel.
#
# The PTX is labelled as version 7.4, so that drivers since CUDA 11.4 take it;
# nvcc labels it as its own version. ptxas refuses what 7.4 does not have. The
# pragma is a hint of 8.3: which bytes of a load are used.
#
# OUT.cubins is one frame of zstd. It contains the number of codes; for each of
# them its GPU, as 86 for sm_86, and its bytes; and then the codes, in this
# order. Numbers have 32 bits, the lowest first. The codes are alike, so each is
# compressed by what the ones before it have: the window holds all of them.
set -e
nvcc=$1 top=$2 source=$3 out=$4
gpus='80 86 89 90 100 120'
trap 'rm -f "$out.new" "$out".*.new' EXIT
trap 'exit 1' HUP INT TERM

# Its result has the size of what it contains only if it knows the file.
compress()
{
	zstd -q -19 --long=27 -c "$1"
}

# number N: its bytes
number()
{
	# shellcheck disable=SC2059
	printf "$(printf '\\%03o' $(($1 & 255)) $(($1 >> 8 & 255)) \
		$(($1 >> 16 & 255)) $(($1 >> 24 & 255)))"
}

"$nvcc" -arch=compute_80 -ptx -O3 -Werror all-warnings -I"$top/include" \
	-I"$top/lib" -o "$out.new" "$source"
sed -e 's/^\.version .*/.version 7.4/' -e '/\.pragma "used_bytes_mask/d' \
	"$out.new" >"$out.ptx"
compress "$out.ptx" >"$out.ptxz"
: >"$out.log"
for gpu in $gpus; do
	"$nvcc" -cubin -gencode "arch=compute_$gpu,code=sm_$gpu" -Xptxas -v \
		-o "$out.$gpu.new" "$out.ptx" >>"$out.log" 2>&1 || {
		cat "$out.log" >&2
		exit 1
	}
done
{
	number "$(echo "$gpus" | wc -w)"
	for gpu in $gpus; do
		number "$gpu"
		number "$(wc -c <"$out.$gpu.new")"
	done
	for gpu in $gpus; do
		cat "$out.$gpu.new"
	done
} >"$out.new"
compress "$out.new" >"$out.cubins.new"
mv "$out.cubins.new" "$out.cubins"
