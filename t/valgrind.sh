#!/bin/sh
# SPDX-License-Identifier: MIT
# The command under valgrind, which lets no thread run while another waits in
# io_uring_enter: WEIR_DEBUG=io=sync keeps it out of the ring.
. "${0%/*}/env.inc"

test -z "${WEIR_T_SANITIZER#no}" || skip_all 'a build with a sanitizer'
command -v valgrind >/dev/null || skip_all 'no valgrind'
weir synth many m --count 20 2>/dev/null || exit 1
WEIR_DEBUG=io=sync
export WEIR_DEBUG
timeout -k 1 50 valgrind -q --error-exitcode=9 weir --version >/dev/null 2>&1 ||
	skip_all 'valgrind does not run the command'

plan 2
works 'WEIR_DEBUG=io=sync: valgrind runs a load to its end' \
	timeout -k 1 50 valgrind -q --error-exitcode=9 \
	weir load m --way direct --json
check '... and finds no errors' test ! -s "$tmp/err"
finish
