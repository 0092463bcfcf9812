#!/bin/sh
# SPDX-License-Identifier: MIT
# No huge pages, nothing or little to be locked, a small address space, few
# descriptors, few threads: it works with less, and says what there is less of
# and which limit it was; where it cannot work, one sentence has both numbers.
. "${0%/*}/env.inc"

# A system without huge pages, as far as this process can see.
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
	check '... and huge memory says that it has none' says 'not
		kind["huge"]["tried"]["huge"] and
		"PR_SET_THP_DISABLE" in kind["huge"]["tried"]["why"]'
	works '... a model is loaded into smaller pages' \
		no_huge weir load m --memory huge --json
	check '... which its report says' says 'j["memory"]["huge"] == 0 and
		"no huge pages" in j["memory"]["why"]'
	is "$(digests no_huge weir load m --digest)" "$want" \
		'... and the bytes are the same'
}

locked()
{
	works "RLIMIT_MEMLOCK $1: devices are listed" \
		limited memlock "$1" weir devices --json
	check '... and locked memory says why it is not locked' says "not
		kind['locked']['tried']['locked'] and ('2097152 bytes are '
		'needed, RLIMIT_MEMLOCK is $1') in
		kind['locked']['tried']['why']"
	check '... and the ring what it does without' says \
		"not io['features']['registered_buffers'] and
		('RLIMIT_MEMLOCK is $1' in io['why'] or
		'EPERM' in io['why'] or 'ENOSYS' in io['why'])"
	works '... a model is loaded' \
		limited memlock "$1" weir load m --way direct --json
	is "$(digests limited memlock "$1" weir load m --way direct --digest)" \
		"$want" '... the same bytes'
	works '... also into memory that was to be locked' \
		limited memlock "$1" weir load m --memory locked --json
	check '... which its report says is not' says "j['memory']['locked']
		== 0 and 'RLIMIT_MEMLOCK is $1' in j['memory']['why']"
}

address_space()
{
	test "$WEIR_T_SANITIZER" = no || {
		skip 5 'a sanitizer needs more address space'
		return
	}
	works 'an address space of 8 GiB is enough' \
		limited as 8589934592 weir load m --way direct --json
	is "$(digests limited as 8589934592 weir load m --digest)" "$want" \
		'... for the same bytes'
	refused 1 'RLIMIT_AS' 'too little of it for a model is one sentence' \
		limited as 240000000 weir load large --memory plain
	check '... with what is needed and what is left' grep -q \
		'[1-9][0-9]* bytes (address space left under RLIMIT_AS: [0-9]' \
		err
	refused 1 'bytes of slots (address space left under RLIMIT_AS:' \
		'... so is too little for the engine' \
		limited as 48000000 weir load m
}

plan 31
weir synth many m --count 500 --shards 3 2>/dev/null || exit 1
weir synth many shards --count 40 --shards 20 2>/dev/null || exit 1
weir synth many large --count 6000 2>/dev/null || exit 1
want=$(digests weir load m --digest)

if no_huge true 2>/dev/null; then
	huge_pages
else
	skip 5 'huge pages cannot be switched off for a process'
fi
if ! command -v prlimit >/dev/null; then
	skip 23 'no prlimit'
elif ! user weir --version >/dev/null 2>&1; then
	skip 23 "$(why_not_nobody)"
else
	locked 0
	locked 65536
	address_space
	refused 1 'RLIMIT_NOFILE is 24 (ulimit -n)' \
		'too few descriptors for the shards are one sentence' \
		limited nofile 24 weir load shards
	check '... that names a shard and how many there are' \
		grep -q "shard 'model-000.*, [0-9]* of 20: " err
	works '... a few more are enough' limited nofile 64 weir load shards
	refused 1 'RLIMIT_NOFILE is' 'so are too few for one file' \
		limited nofile 5 weir load shards
fi
# threads N CMD...: an ordinary user who may have N of them.
threads()
{
	n=$1
	shift
	# The leak checker of a sanitizer is a process.
	timeout 300 prlimit --nproc="$n" setpriv --reuid $nobody \
		--regid $nobody --clear-groups env ASAN_OPTIONS=detect_leaks=0 \
		"$@"
}
if ! can_be_nobody; then
	skip 3 "$(why_not_nobody)"
elif ! threads 2 weir load m --quiet 2>/dev/null; then
	skip 3 'no prlimit, or others run as this user'
else
	works 'an ordinary user who may have two threads loads' \
		threads 2 weir load m --json --way direct
	check '... and is told of RLIMIT_NPROC' says \
		'"RLIMIT_NPROC is 2" in j["note"] + j["io_why"]'
	refused 1 'RLIMIT_NPROC is 1' 'with none it is one sentence' \
		threads 1 weir load m
fi
finish
