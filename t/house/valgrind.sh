#!/bin/sh
# SPDX-License-Identifier: MIT
# The command under valgrind, which runs no thread while another waits in
# io_uring_enter; WEIR_DEBUG=io=sync makes it use no ring.
. "${0%/*}/../env.inc"

test -z "${WEIR_T_SANITIZER#no}" || skip_all 'a build with a sanitizer'
command -v valgrind >/dev/null || skip_all 'no valgrind'
weir synth many m --count 20 2>/dev/null || exit 1
WEIR_DEBUG=io=sync
export WEIR_DEBUG
timeout -k 1 50 valgrind -q --error-exitcode=9 weir --version >/dev/null 2>&1 ||
	skip_all 'valgrind does not run the command'

plan 2
works 'a load under valgrind with WEIR_DEBUG=io=sync ends' \
	timeout -k 1 50 valgrind -q --error-exitcode=9 \
	weir load m --way direct --json
check 'valgrind finds no errors in a load' test ! -s "$tmp/err"
finish
