#!/bin/sh
# SPDX-License-Identifier: MIT
# The rows of bench/load for a GPU run: tiny ones, on the stand-in, whose times
# mean nothing. The goals are those of a real run.
. "${0%/*}/../tap.inc"

fake=${WEIR_T_FAKECUDA:-$builddir/t/fakecuda/.libs}
test -e "$builddir/lib/cuda/.libs/weir-cuda.so" || skip_all 'built without CUDA'
test -e "$fake/libcuda.so.1" || skip_all 'no stand-in for the driver'

# bench ARG...: with its models and the stand-in's report in $tmp.
bench()
{
	rm -f "$tmp/report"
	env LD_LIBRARY_PATH="$fake:$LD_LIBRARY_PATH" \
		FAKECUDA_REPORT="$tmp/report" "$builddir/bench/load" \
		--dir "$tmp/models" --pairs 1 "$@" >"$tmp/out" 2>"$tmp/err"
}

runs()
{
	bench --device CUDA0 --tiny --json "$tmp/json" --row device && return
	sed 's/^/# /' "$tmp/out" "$tmp/err"
	return 1
}

rows()
{
	grep -o "\"$1\": [^,]*" "$tmp/json" | sort | uniq -c |
		sed 's/^ *//' | tr '\n' ' '
}

reported()
{
	sed -n "s/^$1 //p" "$tmp/report"
}

# Without io_uring, threads measure the limit of a cold load.
without_ring()
{
	for row in bus cold; do
		env LD_LIBRARY_PATH="$fake:$LD_LIBRARY_PATH" "$builddir/t/deny" \
			io_uring_setup EPERM "$builddir/bench/load" --tiny \
			--device --dir "$tmp/models" --row device-$row \
			--pairs 1 || return
	done
}

# Slices, conversions and the others, which need no GPU.
exact_rows()
{
	for row in targets slice convert plan prefault; do
		bench --tiny --row $row && continue
		sed 's/^/# /' "$tmp/out" "$tmp/err"
		return 1
	done
}

plan 10
check 'the rows for a GPU run' runs
check 'the rows for a GPU name the stand-in driver' \
	grep -q 'the stand-in driver' \
	"$tmp/out"
is "$(grep -c '"row"' "$tmp/json")" 16 'the rows for a GPU are 16'
is "$(rows judged)" '16 "judged": "nothing" ' 'no row on the stand-in is judged'
is "$(reported misuse)$(reported reused)" 00 \
	'the rows for a GPU do not misuse the driver'
has "$(reported device-memory)" 'live 0 ' \
	'the rows for a GPU free all device memory'
bench --device --row device-first
has "$(cat "$tmp/out")" 'skipped: needs a real GPU' \
	'a row that needs a real GPU is skipped on the stand-in'
is "$(bench --row device; echo $?)" 2 \
	'without --device a row for a GPU is unknown'
if "$builddir/t/deny" io_uring_setup EPERM true 2>/dev/null; then
	check 'the rows for a GPU run where io_uring is forbidden' without_ring
else
	skip 1 'no seccomp filters, or t/deny is not built'
fi
check 'the rows for targets, slices, conversions and plans run' exact_rows
finish
