#!/bin/sh
# SPDX-License-Identifier: MIT
# seeds.sh SEED...: the tests of what CUDA devices compute, each with another
# order of warps and blocks (FAKECUDA_ORDER) and other delays for each seed; odd
# ones with arithmetic as inexact as a GPU's (ROUGH), even ones with
# WEIR_DEBUG=races. `make seeds SEEDS="1 2 3"` runs it; without seeds it has 1
# and 2. $SEEDS_TESTS: these tests only ("cuda/cuda-any"). As many run at once
# as there are CPUs, each in a folder of its own.
# seeds.sh --test TEST: run one, in the folder TEST; its output and status.
if test "${1-}" = --test; then
	mkdir -p "$2" && cd "$2" || exit
	status=0
	if test -e "$srcdir/t/$2.sh"; then
		sh "$srcdir/t/$2.sh"
	else
		"$builddir/t/$2.t"
	fi >out 2>err || status=$?
	echo $status >status
	exit 0
fi
. "${0%/*}/../tap.inc"

# The longest one is the first.
tests=${SEEDS_TESTS:-'cuda/cuda-random cuda/cuda-elements cuda/cuda-whole-rows
	cuda/cuda-rows-by-index cuda/cuda-copies cuda/cuda-rope
	cuda/cuda-attention cuda/cuda-lengths cuda/cuda-products cuda/cuda-any
	cuda/cuda-grids cuda/cuda-quants cuda/cuda-tiles cuda/cuda-matvec
	cuda/cuda-matvec-bits cuda/cuda-chunks cuda/cuda-attention-bits
	cuda/cuda-attention-tiles cuda/cuda-attention-places cuda/cuda-fuse
	cuda/cuda-fuse-products cuda/cuda-fuse-rows cuda/cuda-fuse-matrices
	cuda/cuda-fuse-heads cuda/cuda-graphs
	cuda/cuda-compute cuda/cuda-cublaslt cuda/cuda-cublaslt-runs
	house/llama cli/cli-run'}

ls "$builddir"/lib/cuda/kernels/*.ptx >/dev/null 2>&1 ||
	ls "$srcdir"/lib/cuda/kernels/*.ptx >/dev/null 2>&1 ||
	skip_all 'the kernels were built without nvcc'
test $# -gt 0 || set -- ${SEEDS:-1 2}
plan $(($(echo $tests | wc -w) * $#))
FAKECUDA_STRICT=1
export FAKECUDA_STRICT FAKECUDA_ORDER FAKECUDA_SEED FAKECUDA_JITTER \
	FAKECUDA_ROUGH WEIR_DEBUG WEIR_T_SEED
FAKECUDA_JITTER=20

for seed in "$@"; do
	FAKECUDA_ORDER=$seed FAKECUDA_SEED=$seed WEIR_T_SEED=$((seed * 1000))
	FAKECUDA_ROUGH=$((seed % 2))
	test $FAKECUDA_ROUGH = 1 && unset WEIR_DEBUG || WEIR_DEBUG=races
	mkdir "$tmp/seed$seed" && cd "$tmp/seed$seed" || exit
	printf '%s\n' $tests |
		xargs -P "$(nproc)" -n 1 sh "$srcdir/t/cuda/seeds.sh" --test
	for test in $tests; do
		if why=$(grep '^1\.\.0' "$test/out"); then
			skip 1 "seed $seed: t/$test: ${why#1..0 # SKIP }"
			continue
		fi
		is "$(cat "$test/status") $(grep '^not ok' "$test/out"
			grep 'race: ' "$test/err")" '0 ' \
			"seed $seed: t/$test passes, with no finding" ||
			tail -n 3 "$test/out" "$test/err" | sed 's/^/# /'
	done
done
finish
