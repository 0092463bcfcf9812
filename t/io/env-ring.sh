#!/bin/sh
# SPDX-License-Identifier: MIT
# io_uring can be forbidden at io_uring_setup (EPERM, ENOSYS, ENOMEM), at
# io_uring_enter and at io_uring_register. In each case a load has the same
# bytes, and reports why it is slower.
. "${0%/*}/../env.inc"

# without_ring CALL ERRNO HINT: no ring; the reason contains HINT.
without_ring()
{
	call=$1 error=$2 hint=$3
	works "$call $error: devices are listed" \
		deny "$call" "$error" timeout 300 weir devices --json
	check "$call $error: devices are listed without a ring" says \
		'io["method"] == "sync" and not any(io["features"].values())'
	check "$call $error: the listed reason names the call and the errno" \
		says \
		"'$call: $error' in io['why'] and '$hint' in io['why']"
	works "$call $error: a model is loaded" deny "$call" "$error" \
		timeout 300 weir load m --way direct --json
	check "$call $error: threads load a model, with the reason" says \
		"io == 'sync' and j['enters'] == 0 and '$hint' in j['note']"
	is "$(digests deny "$call" "$error" timeout 300 weir load m --digest)" \
		"$want" "$call $error: a model is loaded with the right bytes"
	refused 1 "$hint" "$call $error: --io uring is refused" \
		deny "$call" "$error" timeout 300 weir load m --io uring
}

# kernel.io_uring_disabled = 1 forbids io_uring to ordinary users only, so that
# other programs of this machine's root are not disturbed.
sysctl_disabled()
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
	flock -x 8
	trap 'echo "$old" >$switch; rm -rf "$tmp"' 0
	echo 1 2>/dev/null >$switch || {
		skip 4 'kernel.io_uring_disabled cannot be set'
		return
	}
	works 'kernel.io_uring_disabled is 1: an ordinary user loads' \
		nobody weir load m --json
	check 'kernel.io_uring_disabled is 1: threads load a model, with the reason' \
		says "io == 'sync' and
		'kernel.io_uring_disabled is 1' in j['note']"
	is "$(digests nobody weir load m --digest)" "$want" \
		'kernel.io_uring_disabled is 1: a model is loaded with the right bytes'
	refused 1 'kernel.io_uring_disabled is 1' \
		'kernel.io_uring_disabled is 1: --io uring is refused' \
		nobody weir load m --io uring
	echo "$old" >$switch
	flock -s 8
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
check 'io_uring_register EPERM: the ring has no registrations' says '[f for f in
	io["features"] if f.startswith("registered") and io["features"][f]]
	== [] and io["method"] == "uring" and io["features"]["ring"]'
check 'io_uring_register EPERM: the listed reason names registering' says \
	'"registering" in io["why"] and "a seccomp filter" in io["why"]'
works 'io_uring_register EPERM: a model is loaded through the ring' \
	deny io_uring_register EPERM \
	timeout 300 weir load m --io uring --way direct --json
check 'io_uring_register EPERM: the report has the reason' says \
	'io == "uring" and "registering" in j["note"]'
sysctl_disabled
finish
