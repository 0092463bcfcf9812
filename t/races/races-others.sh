#!/bin/sh
# SPDX-License-Identifier: MIT
# Other tests with WEIR_DEBUG=races: what synchronises correctly is not reported.
# The log of roots that have no log function goes to standard error.
. "${0%/*}/../tap.inc"

tests='stream/stream stream/stream-order stream/stream-fail stream/stream-io
	stream/event heap/heap heap/heap-order heap/heap-shards
	heap/heap-shards-random model/load/load-fd graph/exec/sched
	graph/exec/exec graph/exec/run-start graph/exec/run-load
	graph/exec/run-events graph/exec/run-lanes graph/exec/graph-random'

WEIR_DEBUG=races
WEIR_T_NODES=3000
export WEIR_DEBUG WEIR_T_NODES
# With the tests of native streams, on the stand-in driver.
test -e "$builddir/lib/cuda/.libs/weir-cuda.so" &&
	tests="$tests cuda/cuda-native cuda/cuda-native-io cuda/cuda-heap
		cuda/cuda-blocked cuda/cuda-torch"

plan "$(echo $tests | wc -w)"
cd "$tmp" || exit 1
for test in $tests; do
	status=0
	"$builddir/t/$test.t" >out 2>err || status=$?
	is "$status $(grep '^not ok' out; grep 'race: ' err)" '0 ' \
		"t/$test.t passes with WEIR_DEBUG=races, without a report"
done
finish
