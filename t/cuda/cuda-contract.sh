#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests that are written for any device (WEIR_T_DEVICE), on a CUDA device: the
# stand-in's or a real one. Their lines are printed as lines of this test.
. "${0%/*}/../tap.inc"
. "${0%/*}/../gpu.inc"

cd "$tmp" || exit 1

# contract FILE NAME
contract()
{
	WEIR_T_DEVICE=CUDA0 with_gpu "$builddir/t/$1.t" >out 2>&1
	status=$?
	sed -E "/^1\.\./d; s/^(not )?ok [0-9]+( -)?/\1ok - CUDA0: $2:/
		s/^Bail/# Bail/" out
	ran=$(grep -cE '^(not )?ok ' out)
	t_done=$((t_done + ran))
	is "$status $ran" "0 $(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' out)" \
		"CUDA0: $2: all tests ran and passed"
}

for test in mem/data stream/stream stream/stream-order stream/stream-io \
	stream/stream-fail stream/stream-close stream/stream-race \
	stream/event model/load/load model/load/load-next \
	model/load/load-fd model/load/plan model/load/place \
	model/load/target model/load/target-weights model/load/load-writes \
	model/load/slice model/load/plan-random model/load/verify \
	io/source-mix; do
	contract $test ${test##*/}
done
plan $t_done
finish
