#!/bin/sh
# SPDX-License-Identifier: MIT
# The cost of a chunk and of a tensor in instructions, a count that is the same
# on a busy machine. The recorded counts, and the compiler and flags that they
# are for, are in bench/instructions.txt.
. "${0%/*}/../tap.inc"

records=$srcdir/bench/instructions.txt
margin=10 # percent above the recorded count

record()
{
	sed -n "s/^$1	//p" "$records"
}

compiler=$(echo __GNUC__ __clang__ | $CC -E -P - | sed -n 's/ __clang__$//p')
cflags=$(sed -n 's/^CFLAGS = //p' "$builddir/Makefile")
command -v valgrind >/dev/null || skip_all 'no valgrind'
command -v python3 >/dev/null || skip_all 'no python3'
test "$WEIR_T_SANITIZER" = no || skip_all 'a sanitizer adds instructions'
test "$(uname -m)" = x86_64 || skip_all "the records are for x86_64"
test "gcc ${compiler:-none}" = "$(record compiler)" ||
	skip_all "the records are for $(record compiler), $CC is another"
test "$cflags" = "$(record cflags)" ||
	skip_all "the records are for $(record cflags), CFLAGS are $cflags"

# total CMD...: all instructions of a run; $tmp/profile has the functions.
total()
{
	valgrind --tool=callgrind --callgrind-out-file="$tmp/profile" "$@" \
		2>"$tmp/err" >&2 || return
	sed -n 's/.* Collected : //p' "$tmp/err"
}

# holds NAME SENTENCE FEW MORE N: two totals that differ by N items.
holds()
{
	want=$(record "$1")
	got=$((($4 - $3) / $5))
	diag "$1: $got instructions, the record is $want"
	test "$got" -gt 0 && test $((got * 100)) -le $((want * (100 + margin)))
	t_result $? "$2" && return
	diag "more than $margin % above the recorded count. See the functions:"
	diag "valgrind --tool=callgrind, then callgrind_annotate. If the cost"
	diag "is justified, put the new count in bench/instructions.txt and"
	diag "the reason in the commit."
	sed 's/^/# /' "$tmp/err" | tail -n 3
}

# chunk WAY SENTENCE
chunk()
{
	few=$(total "$builddir/bench/engine" --way "$1" --chunks 500)
	more=$(total "$builddir/bench/engine" --way "$1" --chunks 1500)
	holds "chunk-$1" "$2" "${few:-0}" "${more:-0}" 1000
}

# shared NAME WAY SENTENCE: small tensors, which share chunks.
shared()
{
	few=$(total "$builddir/bench/engine" --way "$2" --chunks 10000)
	more=$(total "$builddir/bench/engine" --way "$2" --chunks 30000)
	holds "$1" "$3" "${few:-0}" "${more:-0}" 20000
}

opened()
{
	python3 "$srcdir/bench/header.py" "$1" "$tmp/$1.safetensors" &&
		total "$builddir/bench/open" "$tmp/$1.safetensors" 1
}

tensor()
{
	few=$(opened 10000)
	more=$(opened 30000)
	holds tensor "$1" "${few:-0}" "${more:-0}" 20000
}

# started STEPS: instructions of weir_run_start in a run of bench/step, but those
# in the stand-in for the driver. Valgrind lets other threads run only if none
# waits in io_uring, and has fewer addresses than the stand-in takes.
started()
{
	env LD_LIBRARY_PATH="$fake" FAKECUDA_MEM=268435456 FAKECUDA_SPAN=1e9 \
		WEIR_DEBUG=io=sync "$builddir/libtool" --mode=execute valgrind \
		--tool=callgrind --toggle-collect=weir_run_start \
		--callgrind-out-file="$tmp/profile" "$builddir/bench/step" "$1" \
		>"$tmp/err" 2>&1 # it misses the goal of its time
	callgrind_annotate --threshold=100 --auto=no "$tmp/profile" |
		awk '/\[.*\]$/ && !/libcuda\.so/ {
			gsub(",", "", $1); sum += $1
		} END { print sum }'
}

# Each step starts two runs.
started_of()
{
	few=$(started 20)
	more=$(started 120)
	holds start "$1" "${few:-0}" "${more:-0}" 200
}

fake=${WEIR_T_FAKECUDA-$builddir/t/fakecuda/.libs}
plan 8
check 'bench/engine, bench/open and bench/step can be built' \
	"$MAKE" -C "$builddir" bench/engine bench/open bench/step
chunk in-place 'a chunk read in place needs no more instructions than recorded'
chunk staged \
	'a chunk copied out of a slot needs no more instructions than recorded'
chunk device \
	'a chunk copied to a device needs no more instructions than recorded'
shared segment segments \
	'a tensor in a scatter copy needs no more instructions than recorded'
shared merged merged \
	'a small tensor to host memory needs no more instructions than recorded'
tensor 'opening a tensor needs no more instructions than recorded'
title='the start of a decode step needs no more instructions than recorded'
kernels=lib/cuda/kernels/matvec_floats.ptx
if test -e "$fake/libcuda.so.1" &&
	{ test -e "$builddir/$kernels" || test -e "$srcdir/$kernels"; }; then
	started_of "$title"
else
	skip 1 'built without CUDA, or without nvcc'
fi
finish
