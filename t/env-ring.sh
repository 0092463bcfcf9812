#!/bin/sh
# SPDX-License-Identifier: MIT
# io_uring can be forbidden at four doors: setup, by EPERM or ENOSYS, enter and
# register. Whatever is shut, a load gives the same bytes, and says why it is
# slower.
. "${0%/*}/env.inc"

# The ring cannot be had.
without_ring()
{
	door=$1 error=$2 hint=$3
	works "$door $error: devices are listed" \
		deny "$door" "$error" timeout 300 weir devices --json
	check '... without a ring' says \
		'io["method"] == "sync" and not any(io["features"].values())'
	check "... because of $door" says \
		"'$door: $error' in io['why'] and '$hint' in io['why']"
	works '... a model is loaded' deny "$door" "$error" \
		timeout 300 weir load m --way direct --json
	check '... by threads, and the report says why' says \
		"io == 'sync' and j['enters'] == 0 and '$hint' in j['note']"
	is "$(digests deny "$door" "$error" timeout 300 weir load m --digest)" \
		"$want" '... which gives the same bytes'
	refused 1 "$hint" '... unless the ring is asked for' \
		deny "$door" "$error" timeout 300 weir load m --io uring
}

# kernel.io_uring_disabled = 1 shuts it to ordinary users alone, so that
# nobody else's tests are disturbed.
sysctl_shut()
{
	switch=/proc/sys/kernel/io_uring_disabled
	can_be_nobody || {
		skip 4 "$(why_not_nobody)"
		return
	}
	old=$(cat $switch 2>/dev/null) && test "$old" = 0 && test -w $switch || {
		skip 4 'kernel.io_uring_disabled is not 0'
		return
	}
	trap 'echo "$old" >$switch; rm -rf "$tmp"' 0
	echo 1 2>/dev/null >$switch || {
		skip 4 'kernel.io_uring_disabled cannot be set'
		return
	}
	works 'kernel.io_uring_disabled is 1: an ordinary user loads' \
		nobody weir load m --json
	check '... by threads, and is told' says "io == 'sync' and
		'kernel.io_uring_disabled is 1' in j['note']"
	is "$(digests nobody weir load m --digest)" "$want" \
		'... the same bytes'
	refused 1 'kernel.io_uring_disabled is 1' \
		'... but not through the ring' nobody weir load m --io uring
	echo "$old" >$switch
}

deny io_uring_setup EPERM true 2>/dev/null || skip_all 'no seccomp filters'
weir synth many m --count 500 --shards 3 2>/dev/null || exit 1
weir load m --io uring --quiet 2>/dev/null || skip_all 'no io_uring here'
want=$(digests weir load m --digest --io sync)

plan 37
without_ring io_uring_setup EPERM 'a seccomp filter'
without_ring io_uring_setup ENOSYS 'the kernel has none'
without_ring io_uring_setup ENOMEM ENOMEM
without_ring io_uring_enter EPERM 'a seccomp filter'

works 'io_uring_register EPERM: devices are listed' \
	deny io_uring_register EPERM timeout 300 weir devices --json
check '... with a ring that has no registrations' says '[f for f in
	io["features"] if f.startswith("registered") and io["features"][f]]
	== [] and io["method"] == "uring" and io["features"]["ring"]'
check '... and the reason' says \
	'"registering" in io["why"] and "a seccomp filter" in io["why"]'
works '... a model is loaded through the ring' deny io_uring_register EPERM \
	timeout 300 weir load m --io uring --way direct --json
check '... and the report says what is lacking' says \
	'io == "uring" and "registering" in j["note"]'
sysctl_shut
finish
