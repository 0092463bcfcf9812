#!/bin/sh
# SPDX-License-Identifier: MIT
# weir devices: its output, on this machine and where less is allowed.
. "${0%/*}/../env.inc"

total()
{
	kib=$(awk '$1 == "MemTotal:" { print $2 }' /proc/meminfo)
	echo $((kib * 1024))
}

# without SYSCALL ERROR CMD...: a system call always fails. LeakSanitizer does
# not work in a process that is traced.
without()
{
	ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
	export ASAN_OPTIONS
	call=$1 error=$2
	shift 2
	strace -f -qq -o /dev/null -e trace="$call" \
		-e inject="$call:error=$error" "$@"
}

# An ordinary user who may lock nothing.
unlocked()
{
	nobody sh -c 'ulimit -l 0; exec "$@"' sh "$@"
}

plan 28
works 'weir devices lists the devices' weir devices
has "$(cat out)" 'CPU: ' 'weir devices lists the CPU'
for word in plain huge locked mapped 'I/O:' registered_buffers; do
	has "$(cat out)" "$word" "weir devices names $word"
done
works 'weir devices --json prints JSON' weir devices --json
check 'the CPU is the first device' says \
	'cpu["name"] == "CPU" and cpu["type"] == "cpu"'
check 'the CPU belongs to the CPU backend' says \
	'"CPU" in j["backends"][cpu["backend"]]'
check 'free memory is at most the total, and that at most MemTotal' \
	says "0 < cpu['memory']['free'] <= cpu['memory']['total'] <= $(total)"
check 'the CPU has the kinds of host memory' says \
	'{"plain", "huge", "locked", "mapped"} <= set(kind)'
check 'reserved huge pages are counted for each size and node' says \
	'sum(p["total"] * p["bytes"] for p in j["reserved"]) == '"$(
	awk '$1 == "Hugetlb:" { print $2 * 1024 }' /proc/meminfo)"
check 'only mapped memory is read-only' says \
	'[k for k in kind if kind[k]["readonly"]] == ["mapped"]'
check 'each kind of memory of the CPU works when it is tried' says \
	'all(kind[k]["tried"]["works"] for k in ("plain", "huge", "locked"))'
check 'weir devices --json has the I/O method and the features of the ring' \
	says 'j["io"]["method"] in ("uring", "sync")
	and set(j["io"]["features"]) == {"ring", "defer_taskrun",
	"registered_ring", "registered_files", "registered_buffers"}'
check 'weir devices --json has the reason if a feature of the ring is missing' \
	says 'all(j["io"]["features"].values()) or j["io"]["why"]'

if command -v strace >/dev/null &&
	without getppid EPERM true 2>/dev/null; then
	works 'weir devices works where io_uring is forbidden' \
		without io_uring_setup EPERM weir devices --json
	check 'where io_uring is forbidden the method is threads, with the reason' \
		says 'j["io"]["method"] ==
		"sync" and "io_uring" in j["io"]["why"]'
	weir synth tiny tiny.safetensors 2>/dev/null
	works 'a load works where io_uring is forbidden' \
		without io_uring_setup EPERM \
		weir load tiny.safetensors --json
	check 'a load where io_uring is forbidden reports the method sync' \
		grep -q '"io": "sync"' out
	refused 1 io_uring \
		'a load with --io uring fails where io_uring is forbidden' \
		without io_uring_setup EPERM \
		weir load tiny.safetensors --io uring
else
	skip 5 'no strace'
fi
if can_be_nobody; then
	run unlocked weir devices --json
	is "$status" 0 \
		'weir devices works for an ordinary user who may lock no memory'
	check 'locked memory reports why it is not locked' \
		says 'not kind["locked"]["tried"]["locked"]
		and kind["locked"]["tried"]["why"]'
	weir synth tiny "$tmp/tiny.safetensors" --force 2>/dev/null
	weir load tiny.safetensors --digest 2>/dev/null >want
	run unlocked weir load tiny.safetensors --memory locked --digest
	is "$status" 0 "another user's readable file is loaded"
	check "another user's file is loaded with the right bytes" cmp out want
	has "$(cat err)" RLIMIT_MEMLOCK \
		'a load to locked memory that is not locked names RLIMIT_MEMLOCK'
else
	skip 5 "$(why_not_nobody)"
fi
finish
