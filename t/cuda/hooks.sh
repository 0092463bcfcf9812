#!/bin/sh
# SPDX-License-Identifier: MIT
# weir's heaps in RMM and PyTorch. Neither is installed here: the header and the
# examples are built and run against minimal declarations of their interfaces,
# t/hooks, which were written from their documentation.
. "${0%/*}/../tap.inc"

fake=${WEIR_T_FAKECUDA:-$builddir/t/fakecuda/.libs}
hook=$builddir/hooks/.libs/libweir-torch.so
test -e "$hook" || skip_all 'built without CUDA'
test -e "$fake/libcuda.so.1" || skip_all 'no stand-in for the driver'
cd "$srcdir" || exit 1
sanitize=$WEIR_T_SANITIZER
test "$sanitize" != no || sanitize=

# on_fake COMMAND...
on_fake()
{
	rm -f "$tmp/report"
	env LD_LIBRARY_PATH="$builddir/lib/.libs:$fake:$LD_LIBRARY_PATH" \
		WEIR_MODULE_PATH="$builddir/lib/cuda/.libs" \
		FAKECUDA_REPORT="$tmp/report" "$@"
}

# build OLD_OR_NEW SOURCE PROGRAM LIBRARY...
build()
{
	hooks=$1 source=$2 program=$3
	shift 3
	g++ -std=c++17 -Wall -Wextra -Wshadow -pedantic -Werror \
		${sanitize:+-fsanitize=$sanitize} -pthread -Iinclude \
		-It/hooks/common "-It/hooks/$hooks" -o "$program" "$source" \
		"$@" 2>"$tmp/err" && return
	sed 's/^/# /' "$tmp/err"
	return 1
}

# report KEY: the number after it in the stand-in's report.
report()
{
	sed -n "s/^$1 \(made [0-9]* \)*\(live \)*\([0-9]*\).*/\3/p" \
		"$tmp/report"
}

# The test looks inside of the library.
rmm()
{
	check "weir/rmm.hpp compiles with $2" build "$1" t/hooks/rmm.cpp \
		"$tmp/rmm" -L"$builddir/lib/.libs" -lweir-internal
	on_fake "$tmp/rmm" >"$tmp/out" 2>&1
	is "$? $(grep -c '^ok ' "$tmp/out")" '0 11' \
		"a resource works with $2" || sed 's/^/# /' "$tmp/out"
	is "$(report device-memory) $(report misuse)" '0 0' \
		"a resource gives everything back with $2"
	check "examples/rmm.cpp compiles with $2" build "$1" examples/rmm.cpp \
		"$tmp/example" -L"$builddir/lib/.libs" -lweir
	has "$(on_fake "$tmp/example" 2>&1)" '1048576 bytes at 0x' \
		"examples/rmm.cpp allocates a buffer with $2"
}

# example ARG...: examples/weir_torch.py, with our stand-in for PyTorch.
example()
{
	on_fake env PYTHONPATH=t/hooks PYTHONDONTWRITEBYTECODE=1 \
		${preload:+LD_PRELOAD="$preload"} \
		python3 examples/weir_torch.py "$@" 2>&1
}

plan 14
if command -v g++ >/dev/null; then
	rmm old 'the base class of RMM up to 26.04'
	rmm new "the concept of RMM from 26.06 on"
else
	skip 10 'no g++'
fi
is "$(nm -D --defined-only "$hook" | awk '$2 == "T" { print $3 }' |
	sed 's/@.*//' | sort | tr '\n' ' ')" \
	'weir_torch_alloc weir_torch_empty_cache weir_torch_free weir_torch_record_stream ' \
	'libweir-torch exports its four functions only'
if ! command -v python3 >/dev/null; then
	skip 3 'no python3'
elif test -n "$sanitize"; then
	skip 3 'python3 is not built with the sanitizer'
else
	is "$(example "$hook")" 'sum: 2097152.0' \
		'examples/weir_torch.py allocates its tensors with weir'
	is "$(report misuse)" 0 \
		'examples/weir_torch.py does not misuse the driver'
	has "$(example)" 'usage: ' 'examples/weir_torch.py prints its usage'
fi
finish
