#!/bin/sh
# SPDX-License-Identifier: MIT
# Drivers that are missing, broken, old or less able: what the command says of
# them, and that everything else works.
. "${0%/*}/../cli.inc"

fake=${WEIR_T_FAKECUDA:-$builddir/t/fakecuda/.libs}
module=$builddir/lib/cuda/.libs
test -e "$module/weir-cuda.so" || skip_all 'built without CUDA'
test -e "$fake/libcuda.so.1" || skip_all 'no stand-in for the driver'
WEIR_MODULE_PATH=$module
export WEIR_MODULE_PATH

# with FOLDER [NAME=VALUE]... CMD...: run CMD with the libraries of FOLDER
with()
{
	folder=$1
	shift
	env LD_LIBRARY_PATH="$folder:$LD_LIBRARY_PATH" "$@"
}

# A library of our own: as FOLDER/FILE, of the C text on stdin.
library()
{
	mkdir -p "$tmp/${1%/*}"
	${CC:-cc} -shared -fPIC -o "$tmp/$1" -x c - 2>/dev/null
}

# left_out WHY WHAT FOLDER [NAME=VALUE]...
left_out()
{
	why=$1 what=$2
	shift 2
	works "$what: the CPU is listed" with "$@" weir devices
	check "$what: no GPU is listed" sh -c "! grep -q '^CUDA0' '$tmp/out' &&
		grep -q '^CPU: ' '$tmp/out'"
	has "$(grep '^/.*weir-cuda.so: left out' "$tmp/out")" "$why" \
		"$what: the reason is listed"
	refused 1 "weir-cuda.so was left out: $why" \
		"$what: the error for CUDA0 has the reason" \
		with "$@" weir load --device CUDA0 "$tmp/tiny.safetensors"
}

plan 67
cd "$tmp" || exit 1
weir synth tiny "$tmp/tiny.safetensors" >/dev/null 2>&1
weir load --quiet --digest "$tmp/tiny.safetensors" >"$tmp/cpu"
mkdir empty text
echo hello >text/libcuda.so.1

left_out 'no CUDA driver: libcuda.so.1' 'no driver' "$tmp/empty"
left_out 'no CUDA driver: ' 'a driver that is a text file' "$tmp/text"
left_out "libcuda.so.1 is a toolkit's stub" 'the stub of a toolkit' \
	"$fake" FAKECUDA_ARM=cuGetProcAddress:1:from:34
works 'a driver that is too old for kernels: the devices are listed' \
	with "$fake" FAKECUDA_VERSION=11030 weir devices
has "$(cat "$tmp/out")" 'computes nothing: ' \
	'the reason why a GPU does not compute is listed'
with "$fake" FAKECUDA_CAPABILITY=75 weir devices >"$tmp/older" 2>&1
if with "$fake" weir devices | grep -q 'computes nothing'; then
	skip 1 'built without kernels'
else
	has "$(cat "$tmp/older")" 'computes nothing: the kernels need a GPU of compute capability 8.0; this one has 7.5' \
		'a GPU that is too old for kernels is listed, with both versions'
fi
left_out 'the driver (CUDA 13.0) has no cuEventQuery as of CUDA 2.0' \
	'a driver that lacks an entry' "$fake" FAKECUDA_NO=cuEventQuery
left_out 'the driver (CUDA 10.2) has no cuDevicePrimaryCtxRelease as of CUDA 11.0' \
	'a driver that is too old' "$fake" FAKECUDA_VERSION=10020
left_out 'cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected (driver of CUDA 13.0)' \
	'a driver without a device' "$fake" FAKECUDA_DEVICES=0
left_out 'cuInit: CUDA_ERROR_DEVICE_UNAVAILABLE' \
	'a device that other processes use' "$fake" FAKECUDA_ARM=cuInit:1:from:46
left_out 'cuDeviceGetCount: CUDA_ERROR_UNKNOWN' \
	'a driver that cannot count' "$fake" \
	FAKECUDA_ARM=cuDeviceGetCount:1:from:999
if echo 'int cuDriverGetVersion(int *v) { *v = 10010; return 0; }' |
	library old/libcuda.so.1; then
	left_out 'the driver (CUDA 10.1) has no cuGetProcAddress as of CUDA 11.3' \
		'a driver without cuGetProcAddress' "$tmp/old"
else
	skip 4 'no compiler'
fi

works 'weir devices --json works without a driver' \
	with "$tmp/empty" weir devices --json
check 'weir devices --json has module and reason' python3 -c 'import json, sys
j = json.load(open("out"))["refused"]
assert len(j) == 1 and j[0]["module"].endswith("/weir-cuda.so"), j
assert j[0]["why"].startswith("no CUDA driver: libcuda.so.1"), j'
run with "$fake" weir devices --json
check 'weir devices --json has no module that was left out' python3 -c 'import json
j = json.load(open("out"))
assert j["refused"] == [] and j["backends"]["CUDA"] == ["CUDA0"], j'

# free_unknown WHAT FOLDER [NAME=VALUE]...: free memory is not known with it
free_unknown()
{
	what=$1
	shift
	works "$what: devices are listed" \
		with "$@" FAKECUDA_REPORT="$tmp/report" weir devices
	has "$(grep -A1 '^CUDA0: ' "$tmp/out")" 'free memory is not known' \
		"$what: free memory is not known"
	check "$what: no context is made" \
		grep -q '^retained made 0' "$tmp/report"
	rm -f "$tmp/report"
}

mkdir alone
ln -s "$fake/libcuda.so.1" alone/
free_unknown 'no NVML' "$tmp/alone"
free_unknown 'an NVML that does not work' "$fake" FAKECUDA_NO=nvml
if mkdir short && ln -s "$fake/libcuda.so.1" short/ &&
	echo 'int nvmlInit_v2(void) { return 0; }' |
	library short/libnvidia-ml.so.1; then
	free_unknown 'an NVML that lacks entries' "$tmp/short"
	echo 'int nvmlInit_v2(void) { return 0; }
		int nvmlDeviceGetHandleByPciBusId_v2(const char *p, void **d)
		{ *d = 0; return 0; }
		int nvmlDeviceGetMemoryInfo(void *d, void *m) { return 3; }' |
		library short/libnvidia-ml.so.1
	free_unknown 'an NVML that knows no memory' "$tmp/short"
else
	skip 6 'no compiler'
fi

# mig_memory [NAME=VALUE]...: a MIG device of 5 GB on a GPU of 40 GB
mig_memory()
{
	run with "$fake" FAKECUDA_MEM=5e9 FAKECUDA_MIG=40e9 "$@" \
		weir devices --json
	python3 -c 'import json
for d in json.load(open("out"))["devices"]:
	if d["name"] == "CUDA0":
		print(d.get("memory"), d.get("why", ""))'
}

has "$(mig_memory)" 5000000000 \
	'a MIG device has its own memory, not that of the GPU'
is "$(mig_memory | grep -c 40000000000)" 0 \
	'a MIG device does not report the memory of the GPU'
is "$(mig_memory FAKECUDA_NO=cuDeviceGetUuid | grep -c 40000000000)" 0 \
	'a MIG device of a driver without UUIDs does not report it either'

for word in waitvalue batch hostregister readonly peer nvml \
	cuMemGetAddressRange cuMemGetInfo cuMemHostUnregister; do
	run with "$fake" FAKECUDA_NO=$word weir load --device CUDA0 --quiet \
		--digest "$tmp/tiny.safetensors"
	check "a driver without $word loads the same bytes" \
		cmp "$tmp/cpu" "$tmp/out"
done
run with "$fake" FAKECUDA_ARM=cuMemHostRegister:1:from:712 weir load \
	--device CUDA0 --quiet --digest "$tmp/tiny.safetensors"
check 'a driver that says memory is registered already loads the same bytes' \
	cmp "$tmp/cpu" "$tmp/out"
finish
