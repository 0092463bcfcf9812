#!/bin/sh
# SPDX-License-Identifier: MIT
# The wheel alone: what is in it, and python/tests without NumPy, torch and safetensors.
. "${0%/*}/../tap.inc"
. "${0%/*}/python.inc"

find_python pytest setuptools auditwheel
build_python
cd "$site/weir" || exit 99

# Names of this machine's folders in the files of the wheel.
folders()
{
	grep -rlaE "$srcdir|$builddir|$tmp|${HOME:-/root}/" . | grep -v pycache
}

# Libraries that a system need not have, and places where they are searched. Only the
# module for URLs needs libcurl, of any system: without versions of its symbols.
needed()
{
	for file in *.so *.so.* weir; do
		case $file in
		weir-http.so) curl='libcurl\.so\.4' ;;
		*) curl='' ;;
		esac
		readelf -V "$file" | grep -o 'libcurl.*'
		readelf -d "$file" | grep -E 'NEEDED|RUNPATH|RPATH' |
			sed 's/.*\[\(.*\)\]/\1/' | grep -vx "$curl" |
			grep -vE '^(lib(c|m|dl|pthread)\.so\.6|ld-linux.*|\$ORIGIN)$'
	done | sort -u | grep -v '^libweir'
}

# Seconds that it takes to import weir, at best, in ms.
import_ms()
{
	PYTHONPATH=$site "$python" -c '
import subprocess, sys
code = "import time; t = time.thread_time(); import weir; print(time.thread_time() - t)"
run = lambda: float(subprocess.check_output([sys.executable, "-c", code]))
print(round(min(run() for _ in range(5)) * 1000))'
}

plan 5
is "$(folders)" '' 'no file of the wheel names a folder of this machine'
is "$(needed)" '' \
	'the wheel needs libc, libm, its own libraries, and libcurl for URLs only'
has "$(echo "$tmp"/dist/*.whl)" 'cp39-abi3-manylinux_' \
	'the wheel is for CPython 3.9 and all later versions'
ms=$(import_ms)
check "weir is imported in 50 ms (it took $ms)" test "$ms" -le 50
check 'python/tests pass without NumPy, torch and safetensors' \
	env WEIR_T_BARE=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$site" \
	"$python" -m pytest -q -p no:cacheprovider --basetemp "$tmp/pytest" \
	"$srcdir/python/tests"
finish
