#!/bin/sh
# SPDX-License-Identifier: MIT
# The bundle for machines without build tools works wherever it is unpacked, and
# without this build folder.
. "${0%/*}/../tap.inc"

test "$WEIR_T_SANITIZER" = no || skip_all 'a bundle has no sanitizers'
fake=
test ! -e "$builddir/t/fakecuda/.libs/libcuda.so.1" || fake=--fake
mkdir "$tmp/out" "$tmp/some where" "$tmp/wheels" "$tmp/bin" || exit 1

bundle()
{
	$MAKE -s -C "$builddir" bundle bundledir="$tmp/out" "$@"
}

too_large()
{
	! bundle BUNDLE_LIMIT=1000 >"$tmp/said" 2>&1 &&
		grep -q 'tar.gz has [0-9]* bytes, at most 1000$' "$tmp/said" &&
		test -z "$(ls "$tmp/out")"
}

# The programs and libraries of the bundle.
binaries()
{
	find "$top" -type f \( -path '*/.libs/*' -o -path '*/usr/bin/*' -o \
		-path '*/usr/lib*' \) -print0
}

# Libraries from outside the bundle, except those that every system has.
outside()
{
	binaries | LD_LIBRARY_PATH="$top/lib/.libs" xargs -0 ldd |
		grep -E 'not found|=> /' | grep -vF "=> $top/" | grep -vE \
		'^	lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+)\.so\.[0-9]* => /'
}

# Symbolic links that lead out of the tree.
far_links()
{
	find "$top" -type l | while read -r link; do
		case $(readlink -f "$link") in
		"$top"/*) ;;
		*) echo "$link" ;;
		esac
	done
}

# tests ARG...: with and without prove, in an empty environment.
tests()
{
	for prove in no prove; do
		run_tests $prove "$@" || return
	done
}

run_tests()
(
	prove=$1
	shift
	cd / && env -i PATH="$PATH_OUTSIDE" TMPDIR="$tmp" PROVE="$prove" \
		WEIR_T_LIMIT="$WEIR_T_LIMIT" \
		"$top/run-tests" "$@" 2>&1
)

# Run one row, on a file of a few MB.
bench()
{
	OUT=$tmp/figures "$top/run-bench" --dir "$tmp/models" load --tiny \
		--row steady --pairs 1
}

fails()
{
	for prove in no prove; do
		! run_tests $prove "$1" >"$tmp/said" || return
		cat "$tmp/said"
		grep -q '^Result: FAIL' "$tmp/said" || return
	done
}

# a_test NAME LINE...: add a test that prints these lines.
a_test()
{
	echo "t/$1.sh" >>"$top/t/list"
	name=$1
	shift
	printf 'echo "%s"\n' "$@" >"$top/t/$name.sh"
}

# A stub of pip: copies the packages of $tmp/wheels, and has no others.
write_pip()
{
	cat >"$tmp/pip" <<'END'
while test $# -gt 1; do
	test "$1" != --dest || to=$2
	test "$1" != --pre || version=0.9
	shift
done
case $1 in
*'<0.9') version=0.8 ;;
esac
name=$(echo "${1%%[<>=]*}" | tr - _)
cp "$T_WHEELS/$name-$version"*.whl "$to" 2>/dev/null && exit
echo "ERROR: No matching distribution found for $1" >&2
exit 1
END
	"$python" "$srcdir/t/wheels.py" "$tmp/wheels"
}

# pack_peers LIMIT
pack_peers()
{
	for bundle in "$tmp"/out/*-linux.tar.gz; do
		bundle=${bundle##*/}
		T_WHEELS=$tmp/wheels PIP="sh $tmp/pip" NAME=wheels \
			BUNDLE=${bundle%.tar.gz} VERSION=3.12 LIBC=2.39 \
			MACHINE=x86_64 LIMIT="$1" \
			sh "$srcdir/bundle/pack-peers" "$tmp/out"
	done 2>&1
}

peers_too_large()
{
	! pack_peers 1000 >"$tmp/said" &&
		grep -q 'tar has [0-9]* bytes, at most 1000$' \
			"$tmp/said" && test ! -e "$tmp/out/wheels.tar"
}

# A stub of compute-sanitizer: it finds no errors.
write_sanitizer()
{
	cat >"$tmp/bin/compute-sanitizer" <<'END'
#!/bin/sh
while test "${1#/}" = "$1"; do
	shift
done
echo '========= COMPUTE-SANITIZER'
"$@"
status=$?
echo '========= ERROR SUMMARY: 0 errors'
exit $status
END
	chmod +x "$tmp/bin/compute-sanitizer"
}

# run_all ARG...: results to $tmp/all, copies to $tmp/copy; prints the status.
run_all()
{
	(cd / && env -i PATH="$tmp/bin:$PATH_OUTSIDE" TMPDIR="$tmp" \
		OUT="$tmp/copy" T_XXHASH="$(echo "$top"/usr/lib*/libxxhash.so.0)" \
		"$top/run-all" --out "$tmp/all" --dir "$tmp/models" "$@" 2>&1)
	echo "status $?"
}

# summary STEP WHAT: its verdict and figures.
summary()
{
	sed -n "s/^| $1 | $2 | //p" "$tmp/all/summary.md"
}

# Forget a test's result, as if run-all had been killed before its end.
forget()
{
	sed -i "/^tests\/$1/d" "$tmp/all/results.tsv"
}

some_tests()
{
	printf 't/%s\n' core/error.t bad.sh cuda/cuda-stream.t \
		cuda/cuda-files.t cuda/cuda-compute.t >"$top/t/list"
}

# items_of STEP: where there is a compute-sanitizer.
items_of()
(
	. "$top/run-items.inc"
	sanitizer_command()
	{
		echo stub
	}
	items "$1"
)

# left_out STEP: tests of t/cuda that have graphs, and those of the trials of
# t/kernels, which have no source there, that are not in it.
left_out()
{
	graphs='weir_(graph|exec|run)_|trial|attend\.h|_runs?\.h'
	items_of "$1" >"$tmp/items"
	while read -r test; do
		source=$srcdir/t/cuda/${test%t}c
		if test ! -e "$source" || grep -qE "$graphs" "$source"; then
			echo "$test"
		fi
	done <"$tmp/cuda" | grep -vxFf "$tmp/items"
}

all_steps()
{
	has "$(run_all --fake --for 0 tests)" 'status 3' \
		'run-all without time left does nothing and returns 3'
	has "$(run_all --fake)" 'status 1' \
		'run-all runs all steps and returns 1 if a test fails'
	has "$(summary tests bad.sh)" 'FAILED | FAILED 1 of 2, status 0' \
		'the summary names the failed test'
	has "$(summary tests bad.sh)" ': 2 this fails |' \
		'the summary has the failed check'
	has "$(summary tests '4 tests')" 'ok | ' \
		'the summary has the number of tests that passed' ||
		sed 's/^/# /' "$tmp/all/summary.md"
	is "$(summary machine 'GPU 1')" 'absent | no such device |' \
		'the summary has a line for what the machine lacks'
	has "$(summary copies '2 tests')" 'ok | ' \
		'tests of copies run under compute-sanitizer'
	is "$(grep -oE '^(memcheck|racecheck|copies)/[^	]*' \
		"$tmp/all/results.tsv" | paste -sd ' ' -)" \
		"memcheck/cuda-compute.t racecheck/cuda-compute.t \
copies/cuda-stream.t copies/cuda-files.t" \
		'those of kernels first, for accesses and for races'
	has "$(summary device 'min(disk, bus)')" 'ok | ' \
		'the summary has rows of the bench'
	if test "$computes"; then
		has "$(summary products matvec-q4_0)" 'of a kernel that reads' \
			'the summary has products beside a kernel that reads'
		has "$(summary products prompt-bf16)" ' TFLOPS |' \
			'the summary has products of many columns'
		has "$(summary products library-cubed)" ' of cuBLASLt' \
			'the summary has products by tiles beside cuBLASLt'
		has "$(summary decode 'decode Q4_0')" ' tokens/s ' \
			'the summary has the tokens a second of a model'
		has "$(summary decode llama.cpp)" 'absent | ' \
			'a llama.cpp that is not installed is a line'
	else
		is "$(summary products products)" \
			'absent | no device computes |' \
			'without kernels there are no products'
		skip 4 'built without nvcc'
	fi
	is "$(run_all --fake | tail -n 1)" 'status 1' \
		'run-all with nothing left to do returns the same status'
	is "$(cut -f 1 "$tmp/all/results.tsv" | grep -c ^tests/)" 5 \
		'run-all runs no test twice'
	cp "$tmp/all/results.tsv" "$tmp/before"
	forget error.t
	run_all --fake tests >/dev/null
	is "$(sort "$tmp/all/results.tsv" | cut -f 1,3-)" \
		"$(sort "$tmp/before" | cut -f 1,3-)" \
		'the next run-all runs the tests that a killed one did not finish'
	is "$(cd "$tmp/copy" && ls)" "$(cd "$tmp/all" && ls)" \
		'run-all copies all results to $OUT'
	is "$(ls "$tmp/all" | grep -vx products.jsonl | paste -sd ' ' -)" \
		"device.jsonl log.txt \
machine.txt peers.json results.tsv summary.md summary.svg" \
		'run-all writes these results and no others'
	a_test own 1..1 "ok 1\" && echo \$WEIR_T_TIMEOUT >$tmp/own; echo \""
	run_all --fake --for 100 tests >/dev/null
	is "$(cat "$tmp/own")" 140 \
		"a test's own time limit does not depend on the time left"
	a_test slow 1..1 'ok 1" && sleep 100; echo "'
	has "$(run_all --fake --for 22 tests)" 'status 3' \
		'a test that is ended because time is up is left to do'
	has "$(run_all tests)" 'status 2' \
		'run-all on another driver refuses to add to the results'
}

peers()
{
	has "$(summary peers 'tiny, cold: weir')" 'ok | 0.' \
		'the summary has weir beside other loaders'
	has "$(summary peers 'tiny, cold: safetensors')" " times weir's (" \
		'the summary has a loader that comes as a wheel'
	is "$(summary peers 'safetensors, prefetch')" 'absent | wrong bytes |' \
		'a loader that loads wrong bytes is left out'
	is "$(summary peers runai-model-streamer)" \
		"absent | No module named 'nosuchthing' |" \
		'a loader that cannot be imported is left out'
	has "$(summary peers fastsafetensors)" 'is not for Python' \
		'a loader for another Python is left out'
	has "$(cat "$tmp/all/summary.svg")" 'tiny file, cold: ' \
		'the picture has all loaders'
	memory=$(mktemp -d /dev/shm/weir-t.XXXXXX 2>/dev/null) ||
		{ skip 1 'no /dev/shm'; return; }
	run_all --fake --out "$tmp/memory" --dir "$memory" peers >/dev/null
	rm -rf "$memory"
	has "$(grep '^peers/tiny,cold	' "$tmp/memory/results.tsv")" \
		'	absent	tiny,cold	' \
		'a file that cannot be evicted is absent, not a failure'
}

PATH_OUTSIDE=$(echo "$PATH" | tr ':' '\n' | grep -vF "$builddir" |
	paste -sd: -)
python=$(command -v python3)
plan 60
check 'an archive that is too large is refused and removed' too_large
check 'make bundle writes an archive' bundle
is "$(cd "$tmp/out" && ls | sed 's/-[a-z0-9_]*-linux/-CPU-linux/')" \
	weir-0.1.0-CPU-linux.tar.gz \
	'the archive is named after its version and machine'
check 'the archive can be unpacked' \
	tar xzf "$tmp"/out/*.tar.gz -C "$tmp/some where"
top=$(echo "$tmp/some where"/*)
is "$(grep -rlF "$builddir" "$top")" '' \
	'no file of the bundle names this build folder'
is "$(far_links)" '' 'no symbolic link leads out of the bundle'
is "$(outside)" '' 'the bundle has all libraries that a bare system may lack'
check 'the bundle has liburing' test -e "$top"/usr/lib*/liburing.so.2
has "$(tail -n 1 "$top/README.md")" '; needs GLIBC_2.' \
	'the README of the bundle has the version of the C library that it needs'
is "$(find "$top" \( -name 'libc.so*' -o -name 'libcuda.so*' \) |
	grep -v /t/fakecuda/)" '' 'the bundle has neither libc nor libcuda'
has "$("$top/bench/load" --help 2>&1)" "[$top/bench-models]" \
	'a bench finds the folder of the bundle'
check 'a bench runs in the bundle' bench
is "$(cd "$tmp/figures" && ls)" "$(printf '%s\n' load.json load.txt \
	machine.txt)" 'a bench writes its figures to $OUT'
check 'tests run in the bundle' tests $fake error stream.t cli-usage.sh
has "$(run_tests no -v error)" 'ok 1 - ' 'run-tests -v prints each line'
if test "$fake"; then
	check 'run-tests --fake runs a test on the stand-in' \
		tests --fake t/cuda/cuda-stream.t
	out=$(LD_LIBRARY_PATH=$top/t/fakecuda/.libs && export LD_LIBRARY_PATH &&
		PROVE=no "$top/run-tests" cuda-stream 2>&1)
	has "$out" 'Result: PASS' 'run-tests runs a test on another driver'
	has "$out" 'SKIP needs the stand-in' \
		'run-tests on another driver skips checks that need the stand-in'
else
	skip 3 'built without CUDA'
fi
a_test fine 1..1 'ok 1 - all is well'
check 'run-tests reports a test that passes' tests fine
a_test bad 1..2 'ok 1' 'not ok 2 - this fails'
check 'run-tests reports a test that fails' fails bad
a_test short 1..2 'ok 1'
check 'run-tests reports a test that ends early as failed' fails short
a_test status 1..1 'ok 1" && exit "3'
check 'run-tests reports a test with another status as failed' fails status
a_test bails 1..2 'ok 1' 'Bail out! no more'
check 'run-tests reports a test that bails out as failed' fails bails
is "$(run_tests no nosuch >/dev/null; echo $?)" 2 \
	'run-tests refuses a test that does not exist'
a_test hangs 1..1 'ok 1" && sleep 100; echo "'
has "$(WEIR_T_LIMIT=1; export WEIR_T_LIMIT; run_tests no hangs)" \
	'did not end in 1 seconds' 'run-tests ends a test that hangs'
if test "$python"; then
	write_pip
	check 'wheels that are too large are refused' peers_too_large
	has "$(pack_peers 99999999)" \
		'left out: instanttensor: ERROR: No match' \
		'a loader that pip does not find is left out with a message'
	check 'the other wheels can be unpacked beside the bundle' \
		tar xf "$tmp/out/wheels.tar" -C "$tmp/some where"
	is "$(cd "$top/wheels" && find . -name '*.whl' | wc -l)" 6 \
		'the archive has all six wheels'
else
	skip 4 'no python3'
fi
if test "$fake"; then
	sed -n 's/^t\/cuda\/\(.*\.t\)$/\1/p' "$top/t/list" >"$tmp/cuda"
	for step in memcheck racecheck; do
		is "$(left_out $step)" '' \
			"$step has all tests of what CUDA devices compute"
	done
	write_sanitizer
	cp "$tmp"/wheels/torch*.whl "$top/wheels" 2>/dev/null
	some_tests
	computes=$(LD_LIBRARY_PATH=$top/t/fakecuda/.libs "$top/tools/weir" \
		devices | grep -c 'computes nothing')
	test "$computes" != 0 && computes= || computes=1
	all_steps
	if test "$python"; then
		peers
	else
		skip 7 'no python3'
	fi
else
	skip 31 'built without CUDA'
fi
finish
