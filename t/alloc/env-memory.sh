#!/bin/sh
# SPDX-License-Identifier: MIT
# No huge pages, small limits of locked memory, of the address space, of
# descriptors and of threads: the command works with less and names the limit;
# where it cannot work, one sentence has both numbers.
. "${0%/*}/../env.inc"

# no_huge CMD...: huge pages are switched off for the process (prctl).
no_huge()
{
	python3 -c 'import ctypes, os, sys
assert ctypes.CDLL(None).prctl(41, 1, 0, 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])' "$@"
}

# limited FLAG LIMIT CMD...: as an ordinary user.
limited()
{
	flag=$1 limit=$2
	shift 2
	user prlimit "--$flag=$limit" "$@"
}

huge_pages()
{
	works 'without huge pages devices are listed' \
		no_huge weir devices --json
	check 'without huge pages huge memory reports the reason' says 'not
		kind["huge"]["tried"]["huge"] and
		"PR_SET_THP_DISABLE" in kind["huge"]["tried"]["why"]'
	works 'without huge pages a model is loaded to huge memory' \
		no_huge weir load m --memory huge --json
	check 'without huge pages the report of a load has the reason' \
		says 'j["memory"]["huge"] == 0 and
		"no huge pages" in j["memory"]["why"]'
	is "$(digests no_huge weir load m --digest)" "$want" \
		'without huge pages a model is loaded with the right bytes'
}

locked()
{
	works "RLIMIT_MEMLOCK $1: devices are listed" \
		limited memlock "$1" weir devices --json
	check "RLIMIT_MEMLOCK $1: locked memory reports why it is not locked" \
		says "not
		kind['locked']['tried']['locked'] and ('2097152 bytes are '
		'needed, RLIMIT_MEMLOCK is $1') in
		kind['locked']['tried']['why']"
	check "RLIMIT_MEMLOCK $1: the ring reports why it has no registered buffers" \
		says \
		"not io['features']['registered_buffers'] and
		('RLIMIT_MEMLOCK is $1' in io['why'] or
		'EPERM' in io['why'] or 'ENOSYS' in io['why'])"
	works "RLIMIT_MEMLOCK $1: a model is loaded" \
		limited memlock "$1" weir load m --way direct --json
	is "$(digests limited memlock "$1" weir load m --way direct --digest)" \
		"$want" "RLIMIT_MEMLOCK $1: a model is loaded with the right bytes"
	works "RLIMIT_MEMLOCK $1: a model is loaded to locked memory" \
		limited memlock "$1" weir load m --memory locked --json
	check "RLIMIT_MEMLOCK $1: a load to locked memory reports the reason" \
		says "j['memory']['locked']
		== 0 and 'RLIMIT_MEMLOCK is $1' in j['memory']['why']"
}

address_space()
{
	test "$WEIR_T_SANITIZER" = no || {
		skip 7 'a sanitizer needs more address space'
		return
	}
	works 'a model is loaded in an address space of 8 GiB' \
		limited as 8589934592 weir load m --way direct --json
	is "$(digests limited as 8589934592 weir load m --digest)" "$want" \
		'a model is loaded in an address space of 8 GiB with the right bytes'
	refused 1 'RLIMIT_AS' \
		'a model larger than the address space is refused' \
		limited as 240000000 weir load large --memory plain
	check 'the error of a small address space has the bytes needed and left' \
		grep -q \
		'[1-9][0-9]* bytes; RLIMIT_AS is 240000000 (ulimit -v), [0-9]' \
		err
	refused 1 'RLIMIT_AS is 48000000 (ulimit -v), ' \
		'an address space too small for the engine is refused' \
		limited as 48000000 weir load m
	refused 1 'RLIMIT_DATA is 20000000 (ulimit -d), ' \
		'where RLIMIT_DATA is the limit the error names that one' \
		limited data 20000000 weir load m
	works 'a small header needs little memory' \
		limited data 8000000 weir inspect header.gguf
}

plan 33
weir synth many m --count 500 --shards 3 2>/dev/null || exit 1
weir synth many shards --count 40 --shards 20 2>/dev/null || exit 1
weir synth many large --count 6000 2>/dev/null || exit 1
weir synth tiny header.gguf 2>/dev/null || exit 1
want=$(digests weir load m --digest)

if no_huge true 2>/dev/null; then
	huge_pages
else
	skip 5 'huge pages cannot be switched off for a process'
fi
if ! command -v prlimit >/dev/null; then
	skip 25 'no prlimit'
elif ! user weir --version >/dev/null 2>&1; then
	skip 25 "$(why_not_nobody)"
else
	locked 0
	locked 65536
	address_space
	refused 1 'RLIMIT_NOFILE is 24 (ulimit -n)' \
		'a model with more shards than descriptors is refused' \
		limited nofile 24 weir load shards
	check 'the error of too few descriptors names a shard and their number' \
		grep -q "shard 'model-000.*, [0-9]* of 20: " err
	works 'a model of 20 shards is loaded with 64 descriptors' \
		limited nofile 64 weir load shards
	refused 1 'RLIMIT_NOFILE is' 'a load with 5 descriptors is refused' \
		limited nofile 5 weir load shards
fi
# threads N CMD...: as an ordinary user with at most N threads.
threads()
{
	n=$1
	shift
	# LeakSanitizer would need a process more.
	timeout 300 prlimit --nproc="$n" setpriv --reuid $nobody \
		--regid $nobody --clear-groups env ASAN_OPTIONS=detect_leaks=0 \
		"$@"
}
if ! can_be_nobody; then
	skip 3 "$(why_not_nobody)"
elif ! threads 2 weir load m --quiet 2>/dev/null; then
	skip 3 'no prlimit, or others run as this user'
else
	works 'an ordinary user who may have two threads can load' \
		threads 2 weir load m --json --way direct
	check 'the report of a load with two threads names RLIMIT_NPROC' says \
		'"RLIMIT_NPROC is 2" in j["note"] + j["io_why"]'
	refused 1 'RLIMIT_NPROC is 1' \
		'a load without another thread is refused' \
		threads 1 weir load m
fi
finish
