#!/bin/sh
# SPDX-License-Identifier: MIT
# The command with a CUDA device, which is the stand-in's, and without.
. "${0%/*}/cli.inc"

fake=${WEIR_T_FAKECUDA:-$builddir/t/fakecuda/.libs}
module=$builddir/lib/cuda/.libs
test -e "$module/weir-cuda.so" || skip_all 'built without CUDA'
test -e "$fake/libcuda.so.1" || skip_all 'no stand-in for the driver'
WEIR_MODULE_PATH=$module
export WEIR_MODULE_PATH

with_gpu()
{
	env LD_LIBRARY_PATH="$fake:$LD_LIBRARY_PATH" "$@"
}

# How many of the THING the driver has made and not got back.
made()
{
	sed -n "s/^$1 made \([0-9]*\) live \([0-9]*\).*/\1 \2/p" "$tmp/report"
}

# The tests of streams, on this device.
contract()
{
	WEIR_T_DEVICE=CUDA0 with_gpu "$builddir/t/$1.t" >"$tmp/contract" 2>&1 &&
		! grep -q '^not ok' "$tmp/contract"
	t_result $? "CUDA0: the tests of $1 hold there too" && return
	grep -v '^ok' "$tmp/contract" | sed 's/^/# /'
}

plan 31
cd "$tmp" || exit 1
weir synth tiny "$tmp/tiny.safetensors" >/dev/null 2>&1
weir synth many "$tmp/many.safetensors" --count 700 >/dev/null 2>&1

works 'devices are listed' \
	with_gpu env FAKECUDA_REPORT="$tmp/report" weir devices
check '... with those of the driver' grep -q '^CUDA0: ' "$tmp/out"
is "$(made retained)" '0 0' '... without making a context'
works 'without a driver there is the CPU' weir devices
check '... and nothing else' sh -c "! grep -q CUDA0: '$tmp/out'"
refused 1 'there are: CPU' 'a device that is not there is refused' \
	weir load --device CUDA0 "$tmp/tiny.safetensors"
run env WEIR_DEBUG=1 weir devices
check 'why the module is left out can be had' \
	grep -q 'no CUDA driver: libcuda.so.1' "$tmp/err"
run with_gpu env WEIR_DEBUG=1 FAKECUDA_NO=cuMemsetD8Async weir devices
check 'a driver that lacks an entry is refused, naming both' \
	grep -q 'CUDA 13.0) has no cuMemsetD8Async' "$tmp/err"
check '... and no device of it is listed' sh -c "! grep -q CUDA0: '$tmp/out'"

for model in tiny many; do
	weir load --quiet --digest "$tmp/$model.safetensors" >"$tmp/cpu"
	for way in buffered direct; do
		rm -f "$tmp/report"
		run with_gpu env FAKECUDA_REPORT="$tmp/report" weir load \
			--way $way --device CUDA0 --quiet --digest \
			"$tmp/$model.safetensors"
		check "$model, $way: a load to CUDA0 has the digests of the CPU" \
			cmp "$tmp/cpu" "$tmp/out"
		is "$(grep -c 'made.* live 0 ' "$tmp/report") $(sed -n 's/^misuse //p' \
			"$tmp/report")" '7 0' '... and gives everything back'
	done
done
run with_gpu env FAKECUDA_DEVICES=2 weir load --device CUDA0 \
	--place '*1*=CUDA1' --quiet --digest "$tmp/many.safetensors"
check 'two devices share a load' cmp "$tmp/cpu" "$tmp/out"
run with_gpu weir load --device CUDA0:virtual=2 --place '*1*=CUDA0-1' \
	--quiet --digest "$tmp/many.safetensors"
check '... as do two halves of one' cmp "$tmp/cpu" "$tmp/out"
refused 2 'GLOB=DEVICE' 'a place without a device is refused' \
	with_gpu weir load --place '*' "$tmp/many.safetensors"
run with_gpu env FAKECUDA_NO=cuMemHostRegister weir load --device CUDA0 \
	--quiet --digest "$tmp/many.safetensors"
check 'a driver that registers no memory loads the same bytes' \
	cmp "$tmp/cpu" "$tmp/out"

# batches VERSION: how often a load with that driver copies in batches.
batches()
{
	rm -f "$tmp/log"
	weir load --quiet --digest "$tmp/tiny.safetensors" >"$tmp/cpu"
	run with_gpu env FAKECUDA_VERSION="$1" FAKECUDA_LOG="$tmp/log" \
		weir load --device CUDA0 --quiet --digest "$tmp/tiny.safetensors"
	cmp -s "$tmp/cpu" "$tmp/out" &&
		grep -c '^[0-9]* cuMemcpyBatchAsync' "$tmp/log"
}
check 'a driver of CUDA 12.8 copies in batches' test "$(batches 12080)" -gt 0
check '... one of 13.0, which has another form of it too, as well' \
	test "$(batches 13000)" -gt 0
is "$(batches 12070)" 0 '... one of 12.7 has none, and loads the same bytes'

for test in stream stream-order stream-io stream-fail stream-close event; do
	contract $test
done
check 'the module exports one symbol' test "$(nm -D --defined-only \
	"$module/weir-cuda.so" | wc -l)" = 1
finish
