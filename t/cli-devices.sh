#!/bin/sh
# SPDX-License-Identifier: MIT
# weir devices: what it says, here and where less is allowed.
. "${0%/*}/env.inc"

says()
{
	python3 -c 'import json, sys
j = json.load(open("out"))
cpu = j["devices"][0]
kind = {k["kind"]: k for k in cpu["kinds"]}
assert eval("(" + sys.argv[1] + ")"), j' "$1"
}

total()
{
	kib=$(awk '$1 == "MemTotal:" { print $2 }' /proc/meminfo)
	echo $((kib * 1024))
}

# without SYSCALL ERROR CMD...: a system call always fails. Leaks cannot be
# looked for in a process that is traced.
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

plan 27
works 'people are told of devices' weir devices
has "$(cat out)" 'CPU: ' '... such as the CPU'
for word in plain huge locked mapped 'I/O:' registered_buffers; do
	has "$(cat out)" "$word" "... and $word"
done
works '--json tells programs' weir devices --json
check 'the CPU is the first device' says \
	'cpu["name"] == "CPU" and cpu["type"] == "cpu"'
check '... of a backend' says \
	'"CPU" in j["backends"][cpu["backend"]]'
check 'free and total memory are believable' says \
	"0 < cpu['memory']['free'] <= cpu['memory']['total'] <= $(total)"
check 'it has the kinds of host memory' says \
	'{"plain", "huge", "locked", "mapped"} <= set(kind)'
check '... of which one is read-only' says \
	'[k for k in kind if kind[k]["readonly"]] == ["mapped"]'
check '... and says what was really got' says \
	'all(kind[k]["tried"]["works"] for k in ("plain", "huge", "locked"))'
check 'the ring is described' says 'j["io"]["method"] in ("uring", "sync")
	and set(j["io"]["features"]) == {"ring", "defer_taskrun",
	"registered_ring", "registered_files", "registered_buffers"}'
check '... and why, if it is not all there' says \
	'all(j["io"]["features"].values()) or j["io"]["why"]'

if command -v strace >/dev/null &&
	without getppid EPERM true 2>/dev/null; then
	works 'where io_uring is forbidden it works' \
		without io_uring_setup EPERM weir devices --json
	check '... with threads, and says why' says 'j["io"]["method"] ==
		"sync" and "io_uring" in j["io"]["why"]'
	weir synth tiny tiny.safetensors 2>/dev/null
	works 'so does a load' without io_uring_setup EPERM \
		weir load tiny.safetensors --json
	check '... and says it too' \
		grep -q '"io": "sync"' out
	refused 1 io_uring 'unless it is to use the ring' \
		without io_uring_setup EPERM \
		weir load tiny.safetensors --io uring
else
	skip 5 'no strace'
fi
if can_be_nobody; then
	run unlocked weir devices --json
	is "$status" 0 'an ordinary user who may lock nothing is served'
	check '... and told so' says 'not kind["locked"]["tried"]["locked"]
		and kind["locked"]["tried"]["why"]'
	weir synth tiny "$tmp/tiny.safetensors" --force 2>/dev/null
	weir load tiny.safetensors --digest 2>/dev/null >want
	run unlocked weir load tiny.safetensors --memory locked --digest
	is "$status" 0 'a file that one may read but does not own is loaded'
	check '... byte by byte' cmp out want
	has "$(cat err)" RLIMIT_MEMLOCK '... into memory that is not locked'
else
	skip 5 "$(why_not_nobody)"
fi
finish
