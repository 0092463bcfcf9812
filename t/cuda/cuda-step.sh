#!/bin/sh
# SPDX-License-Identifier: MIT
# A decode of 1,000 positions takes one CUDA graph, and few calls of the driver.
# Kernels are not executed. The time that bench/step measures is printed only: it
# depends on the machine. t/kernels/instructions.sh has a bound for the
# instructions of weir_run_start.
. "${0%/*}/../tap.inc"
. "${0%/*}/../gpu.inc"

ls "$builddir"/lib/cuda/kernels/*.ptx >/dev/null 2>&1 ||
	ls "$srcdir"/lib/cuda/kernels/*.ptx >/dev/null 2>&1 ||
	skip_all 'the kernels were built without nvcc'
test "$fake" || skip_all 'needs the stand-in'

# calls STEPS: how often bench/step makes each call of the driver, but those that
# depend on when a thread asks whether work is over.
calls()
{
	with_gpu env FAKECUDA_LOG="$tmp/log$1" "$builddir/bench/step" "$1" \
		>/dev/null 2>&1
	awk '$2 ~ /^cu/ { n[$2]++ } END { for (call in n) print call, n[call] }' \
		"$tmp/log$1" |
		grep -v -e Query -e Ctx -e CaptureMode -e EventCreate -e EventDestroy
}

# code_for FILE: the GPUs whose code is loaded by a log of the stand-in.
code_for()
{
	sed -n 's/.* cuModuleLoadDataEx .*not code for \(sm_[0-9]*\).*/\1/p' "$1" |
		sort -u
}

plan 5
check 'bench/step can be built' "$MAKE" -C "$builddir" bench/step
cd "$tmp" || exit 1
with_gpu "$builddir/bench/step" 1000 >steps 2>&1
sed 's/^/# /' steps
is "$(sed -n 's/, launched.*//p' steps)" '1 CUDA graph' \
	'steps at 1,000 positions take one CUDA graph'
calls 10 >few
calls 1010 >many
# Each step of bench/step is one of llama_read and one of weir_run_start alone.
# Rounded down: on a busy machine some runs launch kernels before there is a graph.
is "$(awk '{ n[$1] += FILENAME == "many" ? $2 : -$2 }
	END {
		for (call in n) {
			times = int(n[call] / 1000 + 0.1)
			if (times)
				print call, times
		}
	}' few many | sort | paste -sd ,)" \
	'cuEventRecord 2,cuGraphLaunch 2,cuMemcpyDtoHAsync 1,cuMemcpyHtoDAsync 3,cuStreamSynchronize 4' \
	'a step is a launch and an event, and copies of inputs and logits'
if ls "$builddir"/lib/cuda/kernels/*.cubins >/dev/null 2>&1; then
	is "$(code_for log10)" sm_90 'the driver is given code for the GPU'
	with_gpu env FAKECUDA_LOG="$tmp/older" FAKECUDA_VERSION=12090 \
		"$builddir/bench/step" 10 >/dev/null 2>&1
	is "$(code_for older; grep -o ' cuModuleLoadDataEx = 0' older |
		sort -u)" ' cuModuleLoadDataEx = 0' \
		'code of nvcc 13 is not given to a driver of CUDA 12'
else
	skip 2 'built without nvcc: there is no code for GPUs'
fi
finish
