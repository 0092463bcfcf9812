#!/bin/sh
# SPDX-License-Identifier: MIT
# The command with a CUDA device (the stand-in's or a real one), and without.
. "${0%/*}/../cli.inc"
. "${0%/*}/../gpu.inc"

# made THING: how many the driver has made, and how many of them are left
made()
{
	sed -n "s/^$1 made \([0-9]*\) live \([0-9]*\).*/\1 \2/p" "$tmp/report"
}

# all_back WHAT: nothing is left, as the stand-in reports at exit
all_back()
{
	is "$(grep -c 'made.* live [1-9]' "$tmp/report") $(sed -n 's/^misuse //p' \
		"$tmp/report")" '0 0' "$1: objects of the driver are freed"
}

without_driver()
{
	works 'without a driver the CPU is listed' weir devices
	check 'without a driver no GPU is listed' sh -c "! grep -q CUDA0: '$tmp/out'"
	refused 1 'there are: CPU' 'without a driver a load to CUDA0 is refused' \
		weir load --device CUDA0 "$tmp/tiny.safetensors"
	run env WEIR_DEBUG=1 weir devices
	check 'WEIR_DEBUG=1 prints why the module was left out' \
		grep -q 'no CUDA driver: libcuda.so.1' "$tmp/err"
	run with_gpu env WEIR_DEBUG=1 FAKECUDA_NO=cuMemsetD8Async weir devices
	check 'the error for a driver without an entry names both' \
		grep -q 'CUDA 13.0) has no cuMemsetD8Async' "$tmp/err"
	check 'a driver without an entry has no devices' \
		sh -c "! grep -q CUDA0: '$tmp/out'"
}

two_devices()
{
	run with_gpu env FAKECUDA_DEVICES=2 weir load --device CUDA0 \
		--place '*1*=CUDA1' --quiet --digest "$tmp/many.safetensors"
	check 'two devices share a load' cmp "$tmp/cpu" "$tmp/out"
}

# The server publishes the model until its input ends.
shared_weights()
{
	share=$builddir/examples/share
	name=@weir-cuda-sh-$$
	if ! test -x "$share"; then
		skip 2 'the example is not built'
		return
	fi
	mkfifo "$tmp/input"
	with_gpu "$share" serve $name "$tmp/many.safetensors" CUDA0 \
		<"$tmp/input" >"$tmp/served" &
	server=$!
	exec 7>"$tmp/input"
	tries=0
	until with_gpu "$share" read $name >"$tmp/read" 2>/dev/null ||
		test $((tries += 1)) -gt 100; do
		sleep 0.1
	done
	exec 7>&-
	wait $server
	is $? 0 'a process shares weights in memory of a device'
	check 'another process reads them' cmp "$tmp/served" "$tmp/read"
}

no_registering()
{
	run with_gpu env FAKECUDA_NO=cuMemHostRegister weir load \
		--device CUDA0 --quiet --digest "$tmp/many.safetensors"
	check 'a driver that registers no memory loads the same bytes' \
		cmp "$tmp/cpu" "$tmp/out"
	run with_gpu env FAKECUDA_NO=cuMemHostRegister weir load --json \
		--device CUDA0 --io sync "$tmp/many.safetensors"
	check 'a load without registered slots reports that' grep -q \
		'threads were asked for; page-locked slots for CUDA0' "$tmp/out"
}

# batches VERSION: how many batches a load makes with that driver
batches()
{
	rm -f "$tmp/log"
	weir load --quiet --digest "$tmp/tiny.safetensors" >"$tmp/cpu"
	run with_gpu env FAKECUDA_VERSION="$1" FAKECUDA_LOG="$tmp/log" \
		weir load --device CUDA0 --quiet --digest "$tmp/tiny.safetensors"
	cmp -s "$tmp/cpu" "$tmp/out" &&
		grep -c '^[0-9]* cuMemcpyBatchAsync' "$tmp/log"
}

all_batches()
{
	check 'a driver of CUDA 12.8 copies in batches' \
		test "$(batches 12080)" -gt 0
	check 'a driver of CUDA 13.0 copies in batches' \
		test "$(batches 13000)" -gt 0
	is "$(batches 12070)" 0 \
		'a driver of CUDA 12.7 loads the same bytes without batches'
}

# launches FAMILY LAYERS: how many kernels a token of such a model needs
launches()
{
	python3 -B "$srcdir/t/llama/sparse.py" m.gguf arch="$1" layers="$2" &&
		with_gpu weir graph m.gguf --devices CUDA0 --json | python3 -c '
import json, sys
print(json.load(sys.stdin)["devices"][0]["launches"]["kernels"])'
}

# What a device that computes is given; without nvcc it does not.
graphs()
{
	python3 -B "$srcdir/t/llama/sparse.py" m.gguf &&
		run with_gpu weir graph m.gguf --devices CUDA0
	if ! grep -q '^CUDA0: .* kernels, ' "$tmp/out"; then
		skip 9 'CUDA0 does not compute'
		return
	fi
	check 'a pass of one token is one CUDA graph' \
		grep -q '^CUDA0: [0-9]* kernels, one CUDA graph$' "$tmp/out"
	run with_gpu weir graph m.gguf --devices CUDA0 --tokens 32
	check 'a pass of many tokens is none, and the reason is listed' \
		grep -q 'no CUDA graph: products of 32 columns' "$tmp/out"
	run with_gpu weir graph m.gguf --devices CUDA0:graphs=no
	check 'a device without graphs has the reason listed' \
		grep -q 'no CUDA graph: the parameter graphs=no' "$tmp/out"
	run with_gpu env FAKECUDA_CUBLASLT=130002 weir graph m.gguf \
		--devices CUDA0 --tokens 64
	check 'products of many columns by cuBLASLt are counted' \
		grep -q '^CUDA0: [0-9]* products by cuBLASLt 13.0.2$' "$tmp/out"
	run with_gpu weir graph m.gguf --devices CUDA0 --tokens 64
	check 'without it the reason is listed' \
		grep -q '^CUDA0: no products by cuBLASLt: ' "$tmp/out"
	run with_gpu weir graph m.gguf --devices CUDA0
	check 'of a pass of one token there is nothing to say' \
		sh -c '! grep -q cuBLASLt "$0"' "$tmp/out"
	for family in llama qwen2 qwen3; do
		few=$(launches $family 2)
		more=$(launches $family 4)
		is $((more - few)) 18 "a layer of $family needs 9 launches"
	done
}

plan 40
cd "$tmp" || exit 1
weir synth tiny "$tmp/tiny.safetensors" >/dev/null 2>&1
weir synth many "$tmp/many.safetensors" --count 700 >/dev/null 2>&1

works 'weir devices works with a driver' \
	with_gpu env FAKECUDA_REPORT="$tmp/report" weir devices
check 'devices of the driver are listed' grep -q '^CUDA0: ' "$tmp/out"
if on_fake 7; then
	is "$(made retained)" '0 0' 'weir devices makes no context'
	without_driver
fi

for model in tiny many; do
	weir load --quiet --digest "$tmp/$model.safetensors" >"$tmp/cpu"
	for way in buffered direct; do
		rm -f "$tmp/report"
		run with_gpu env FAKECUDA_REPORT="$tmp/report" weir load \
			--way $way --device CUDA0 --quiet --digest \
			"$tmp/$model.safetensors"
		check "$model, $way: a load to CUDA0 has the digests of the CPU" \
			cmp "$tmp/cpu" "$tmp/out"
		! on_fake 1 || all_back "$model, $way"
	done
done
! on_fake 1 || two_devices
run with_gpu weir load --device CUDA0:virtual=2 --place '*1*=CUDA0-1' \
	--quiet --digest "$tmp/many.safetensors"
check 'two halves of one device share a load' cmp "$tmp/cpu" "$tmp/out"
run with_gpu weir load --device CUDA0:virtual=2 --place '*1*=CUDA0-1' \
	--json "$tmp/many.safetensors"
check 'the JSON of a load names the device of each tensor' python3 -c 'import json
for t in json.load(open("out"))["tensors"]:
	want = "CUDA0-1" if "1" in t["name"] else "CUDA0"
	assert t["device"] == want, (t, want)'
works 'a load to a device and to its page-locked memory draws both' \
	with_gpu weir load --device CUDA0 --place '*1*=CUDA0_Pinned' --quiet \
	--memory-map map.svg "$tmp/many.safetensors"
check 'the picture has memory of the device and memory that is locked' \
	python3 -c 'import re
s = open("map.svg").read()
assert "CUDA0, " in s and "CUDA0_Pinned, " in s, s
assert s.count("\"b orange\"") > 1 and s.count("\"b green\"") > 1, s'
refused 2 'GLOB=NAME' 'a place without a device is refused' \
	with_gpu weir load --place '*' "$tmp/many.safetensors"
graphs
shared_weights
! on_fake 2 || no_registering
! on_fake 3 || all_batches
if command -v nm >/dev/null; then
	check 'the module exports one symbol' test "$(nm -D --defined-only \
		"$module/weir-cuda.so" | wc -l)" = 1
else
	skip 1 'no nm'
fi
finish
