#!/bin/sh
# SPDX-License-Identifier: MIT
# The public headers compile in other programs, under strict flags.
. "${0%/*}/../tap.inc"

headers='weir.h weir/base.h weir/dev.h weir/mem.h weir/tensor.h weir/file.h weir/digest.h
	weir/stream.h weir/heap.h weir/model.h weir/plan.h weir/load.h weir/park.h weir/save.h
	weir/share.h
	weir/cuda.h weir/placement.h weir/graph.h weir/ops.h weir/sched.h
	weir/compare.h weir/backend.h weir/source.h weir/fetch.h'
strict='-Wall -Wextra -Wshadow -Wconversion -pedantic -Werror'
include="-I$srcdir/include"
opts='weir buf stream file model select load save park heap placement sched compare fetch'

# compiles LANGUAGE COMPILER FLAG...: the text on standard input.
compiles()
{
	language=$1
	shift
	"$@" $include -fsyntax-only -x "$language" - 2>&1
}

# each LANGUAGE COMPILER FLAG...: every header alone, twice.
each()
{
	for header in $headers; do
		printf '#include <%s>\n#include <%s>\nint main(void);\n' \
			"$header" "$header" | compiles "$@" || return
	done
}

# A program that initialises each kind of options, in C and C++.
options()
{
	echo '#include <weir.h>'
	echo '#include <stdio.h>'
	echo 'extern size_t use(void);'
	echo 'size_t use(void) { size_t sum = 0;'
	for o in $opts; do
		name=weir_${o}_opts
		test "$o" != weir || name=weir_opts
		upper=$(echo "${name}_INIT" | tr a-z A-Z)
		echo "struct $name $o = $upper; $o.size += 0; sum += $o.size;"
	done
	echo 'return sum; }'
}

consumer()
{
	options | compiles "$@" -Wmissing-field-initializers -Wold-style-cast
}

consumer_c()
{
	options | compiles "$@" -Wmissing-field-initializers
}

# twins CC CXX
twins()
{
	name=${1##*/}
	command -v "${1%% *}" >/dev/null || { skip 3 "no $1"; return; }
	check "$name: each header alone is C99" \
		each c $1 -std=c99 $strict
	check "$name: each header alone is C17 without extensions" \
		each c $1 -std=c17 $strict
	check "$name: initialising options causes no warning in C" \
		consumer_c c $1 -std=c99 $strict
}

twins_cxx()
{
	command -v "${1%% *}" >/dev/null || { skip 3 "no $1"; return; }
	check "$1: each header alone is C++11" \
		each c++ $1 -std=c++11 $strict
	check "$1: each header alone is C++20" \
		each c++ $1 -std=c++20 $strict
	check "$1: initialising options causes no warning in C++" \
		consumer c++ $1 -std=c++11 $strict
}

# An initialiser leaves a hole undefined, so a later member in its place would
# have no known value in older programs.
holes()
{
	echo '#include <weir.h>' | compiles c gcc -Wpadded
}

plan 15
twins gcc
twins_cxx g++
twins clang
twins_cxx clang++

listed=$(cd "$srcdir/include" && find . -name '*.h' | sed 's:^\./::' | sort)
is "$(echo $headers | tr ' ' '\n' | sort)" "$listed" \
	'this test has every public header'
if test "$(getconf LONG_BIT)" = 64 && command -v gcc >/dev/null; then
	is "$(holes)" '' \
		'no public struct has a hole between its members or at its end'
else
	skip 1 'needs gcc and 64 bits'
fi
is "$(grep -rL 'SPDX-License-Identifier: MIT' "$srcdir/include")" '' \
	'each public header has its licence line'
finish
