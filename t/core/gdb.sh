#!/bin/sh
# SPDX-License-Identifier: MIT
# A debugger runs programs that have searched for modules.
. "${0%/*}/../tap.inc"

test "$WEIR_T_SANITIZER" = no || skip_all 'a build without sanitizers suffices'
command -v gdb >/dev/null || skip_all 'no gdb'
# debug COMMAND...: gdb does not end by SIGTERM while it waits for its target.
debug()
{
	timeout -s KILL 120 "$builddir/libtool" --mode=execute gdb -nx -batch \
		-ex 'set debuginfod enabled off' -ex run \
		-ex 'info sharedlibrary' --args "$@" </dev/null 2>&1
}

debug true | grep -q 'exited normally' || skip_all 'gdb cannot start a program'
plan 2
said=$(WEIR_MODULE_PATH=$builddir/t/modules/.libs
	export WEIR_MODULE_PATH
	debug "$builddir/tools/weir" devices)
has "$said" 'exited normally' 'a program that has loaded modules ends under gdb'
has "$said" TEST0 'the module was loaded under gdb'
finish
