#!/bin/sh
# SPDX-License-Identifier: MIT
# seeds.sh SEED...: the tests of what CUDA devices compute, each with another
# order of warps and blocks (FAKECUDA_ORDER) and other delays for each seed; odd
# ones with arithmetic as inexact as a GPU's (ROUGH), even ones with
# WEIR_DEBUG=races. `make seeds SEEDS="1 2 3"` runs it; without seeds it has 1
# and 2. $SEEDS_TESTS: these tests only ("cuda/cuda-any").
. "${0%/*}/../tap.inc"

tests=${SEEDS_TESTS:-'cuda/cuda-elements cuda/cuda-whole-rows
	cuda/cuda-rows-by-index cuda/cuda-copies cuda/cuda-rope
	cuda/cuda-attention cuda/cuda-lengths cuda/cuda-products cuda/cuda-any
	cuda/cuda-grids cuda/cuda-quants cuda/cuda-tiles cuda/cuda-matvec
	cuda/cuda-matvec-bits cuda/cuda-chunks cuda/cuda-attention-bits
	cuda/cuda-attention-tiles cuda/cuda-attention-places cuda/cuda-fuse
	cuda/cuda-fuse-products cuda/cuda-fuse-rows cuda/cuda-fuse-matrices
	cuda/cuda-fuse-heads cuda/cuda-graphs
	cuda/cuda-compute cuda/cuda-cublaslt cuda/cuda-cublaslt-runs
	cuda/cuda-random house/llama cli/cli-run'}

ls "$builddir"/lib/cuda/kernels/*.ptx >/dev/null 2>&1 ||
	ls "$srcdir"/lib/cuda/kernels/*.ptx >/dev/null 2>&1 ||
	skip_all 'the kernels were built without nvcc'
test $# -gt 0 || set -- ${SEEDS:-1 2}
plan $(($(echo $tests | wc -w) * $#))
cd "$tmp" || exit 1
FAKECUDA_STRICT=1
export FAKECUDA_STRICT FAKECUDA_ORDER FAKECUDA_SEED FAKECUDA_JITTER \
	FAKECUDA_ROUGH WEIR_DEBUG WEIR_T_SEED
FAKECUDA_JITTER=20

# run TEST
run()
{
	if test -e "$srcdir/t/$1.sh"; then
		sh "$srcdir/t/$1.sh"
	else
		"$builddir/t/$1.t"
	fi
}

for seed in "$@"; do
	FAKECUDA_ORDER=$seed FAKECUDA_SEED=$seed WEIR_T_SEED=$((seed * 1000))
	FAKECUDA_ROUGH=$((seed % 2))
	test $FAKECUDA_ROUGH = 1 && unset WEIR_DEBUG || WEIR_DEBUG=races
	for test in $tests; do
		status=0
		run "$test" >out 2>err || status=$?
		if why=$(grep '^1\.\.0' out); then
			skip 1 "seed $seed: t/$test: ${why#1..0 # SKIP }"
			continue
		fi
		is "$status $(grep '^not ok' out; grep 'race: ' err)" '0 ' \
			"seed $seed: t/$test passes, with no finding" ||
			tail -n 3 out err | sed 's/^/# /'
	done
done
finish
