#!/bin/sh
# SPDX-License-Identifier: MIT
# What is carried to a machine without build tools works wherever it is
# unpacked, with nothing of this build.
. "$(dirname "$0")/tap.inc"

test "$WEIR_T_SANITIZER" = no || skip_all 'sanitizers are not carried'
fake=
test ! -e "$builddir/t/fakecuda/.libs/libcuda.so.1" || fake=--fake
mkdir "$tmp/out" "$tmp/some where" || exit 1

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

# The programs and libraries themselves.
binaries()
{
	find "$top" -type f \( -path '*/.libs/*' -o -path '*/usr/bin/*' -o \
		-path '*/usr/lib*' \) -print0
}

# Libraries, besides those of every system, that come from elsewhere.
outside()
{
	binaries | LD_LIBRARY_PATH="$top/lib/.libs" xargs -0 ldd |
		grep -E 'not found|=> /' | grep -vF "=> $top/" | grep -vE \
		'^	lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+)\.so\.[0-9]* => /'
}

# Links out of the tree.
far_links()
{
	find "$top" -type l | while read -r link; do
		case $(readlink -f "$link") in
		"$top"/*) ;;
		*) echo "$link" ;;
		esac
	done
}

# tests ARG...: with and without prove, in an environment of nothing.
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
		"$top/run-tests" "$@" 2>&1
)

# Whether a row runs at all, on a file of some MB.
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

# a_test NAME LINE...: one more, that says this.
a_test()
{
	echo "t/$1.sh" >>"$top/t/list"
	name=$1
	shift
	printf 'echo "%s"\n' "$@" >"$top/t/$name.sh"
}

PATH_OUTSIDE=$(echo "$PATH" | tr ':' '\n' | grep -vF "$builddir" |
	paste -sd: -)
plan 24
check 'an archive that is too large is refused, and is not there' too_large
check 'make bundle writes an archive' bundle
is "$(cd "$tmp/out" && ls | sed 's/-[a-z0-9_]*-linux/-CPU-linux/')" \
	weir-0.1.0-CPU-linux.tar.gz '... named for its version and machine'
check '... of one folder' tar xzf "$tmp"/out/*.tar.gz -C "$tmp/some where"
top=$(echo "$tmp/some where"/*)
is "$(grep -rlF "$builddir" "$top")" '' 'nothing in it names this build'
is "$(far_links)" '' 'no link leads out of it'
is "$(outside)" '' 'it has all libraries that a bare system may lack'
check '... such as that of the ring' test -e "$top"/usr/lib*/liburing.so.2
has "$(tail -n 1 "$top/README.md")" '; needs GLIBC_2.' \
	'... but the C library, of which it says what it needs'
is "$(find "$top" \( -name 'libc.so*' -o -name 'libcuda.so*' \) |
	grep -v /t/fakecuda/)" '' '... and none that belongs to the system'
has "$("$top/bench/load" --help 2>&1)" "[$top/bench-models]" \
	'a bench knows where it is'
check 'the benches run where it lies' bench
is "$(cd "$tmp/figures" && ls)" "$(printf '%s\n' load.json load.txt \
	machine.txt)" '... and leave their figures where they are wanted'
check 'its tests run where it lies' tests $fake error stream.t cli-usage.sh
has "$(run_tests no -v error)" 'ok 1 - ' '-v shows each line'
if test "$fake"; then
	check '... on the stand-in too' tests --fake t/cuda-stream.t
	out=$(LD_LIBRARY_PATH=$top/t/fakecuda/.libs && export LD_LIBRARY_PATH &&
		PROVE=no "$top/run-tests" cuda-stream 2>&1)
	has "$out" 'Result: PASS' '... and on a driver that is none'
	has "$out" 'SKIP needs the stand-in' \
		'... where what cannot be asked of it is skipped'
else
	skip 3 'built without CUDA'
fi
a_test fine 1..1 'ok 1 - all is well'
check 'a test that passes passes' tests fine
a_test bad 1..2 'ok 1' 'not ok 2 - this fails'
check '... one that fails fails' fails bad
a_test short 1..2 'ok 1'
check '... so does one that ends early' fails short
a_test status 1..1 'ok 1" && exit "3'
check '... or ends badly' fails status
a_test bails 1..2 'ok 1' 'Bail out! no more'
check '... or gives up' fails bails
is "$(run_tests no nosuch >/dev/null; echo $?)" 2 \
	'a test that is not there is an error'
finish
