#!/bin/sh
# SPDX-License-Identifier: MIT
# ./bootstrap for a newcomer: what it installs, what it treats as an error, and
# what it prints. The programs that it starts are stubs.
. "${0%/*}/../env.inc"

# stub NAME: make a program of the script on standard input.
stub()
{
	{ echo '#!/bin/sh'; cat; } >"tree/bin/$1"
	chmod 755 "tree/bin/$1"
}

# A checkout after autoreconf, on a system on which all packages are installed,
# those in $ABSENT for another architecture only; apt-get and sudo fail.
tree()
{
	rm -rf tree
	mkdir -p tree/bin tree/build-aux tree/cuda/include
	cp "$srcdir/bootstrap" tree
	touch tree/build-aux/tap-driver.sh
	stub dpkg-query <<-'END'
	for last; do :; done
	echo "arm64 installed"
	case " $ABSENT " in *" $last "*) ;; *) echo "amd64 installed" ;; esac
	END
	echo 'echo amd64' | stub dpkg
	echo 'exit 1' | stub python3
	echo 'exit 1' | stub apt-get
	echo 'exit 1' | stub sudo
	echo 'exit 0' | stub id
	stub make <<-'END'
	case $* in
	*prove*) echo "$@" >>"$SAID.prove"; echo "Files=1, Tests=1"; cat "$SAID"; exit $(cat "$SAID.status") ;;
	esac
	END
	echo 'echo "$@" >>"$SAID.options"; touch Makefile' | stub configure
	mv tree/bin/configure tree
	: >tree/said
	echo 0 >tree/said.status
}

# bootstrap ARG...: its output is in $tmp/out.
bootstrap()
{
	SAID=$tmp/tree/said PATH=$tmp/tree/bin:$PATH WITH_CUDA=no \
		ABSENT=$ABSENT tree/bootstrap "$@" >out 2>&1 </dev/null
}

# CI sets it; this test sets it where it is needed.
unset WERROR
plan 19
ABSENT=
tree
check 'bootstrap check succeeds' bootstrap check
check 'bootstrap check prints when each step began' grep -qE \
	'^bootstrap: [0-9]{2}:[0-9]{2}:[0-9]{2} running every test' out
has "$(cat out)" 't/model/format/interop.sh, t/house/llama.sh and t/cli/cli-run.sh are SKIPPED' \
	'bootstrap check names the test that packages of Python are missing for'
is "$(grep -c werror tree/said.options)" 0 \
	"a compiler's warnings are not errors by default"
tree
check 'bootstrap check-long succeeds' bootstrap check-long
is "$(sed -n 's/.* TESTS=//p' tree/said.prove | tr ' ' '\n' |
	sed -e 's:^t/.*/fuzz-\(.*\)\.t$:t/fuzz/fz_\1.c:' -e 's/\.t$/.c/' |
	while read -r file; do
		test -f "$srcdir/$file" || echo "$file"
	done)" '' 'bootstrap check-long names tests that exist'
tree
check 'bootstrap check-long succeeds with WERROR=1' env WERROR=1 sh -c '
	SAID=$0/tree/said PATH=$0/tree/bin:$PATH WITH_CUDA=no \
		"$0/tree/bootstrap" check-long' "$tmp"
is "$(grep -vc werror tree/said.options)" 0 \
	'WERROR=1 makes warnings errors in every build'
has "$(cat "$srcdir/.ci/run")" WERROR 'CI sets WERROR'

tree
printf '%s\n' 'ok 14 - a load says: an error: its name' \
	'not ok 15 - this fails' '# said an error: no' >tree/said
echo 1 >tree/said.status
bootstrap check
is "$(grep -oE '^(not )?ok [0-9]+.*' out)" 'not ok 15 - this fails' \
	'bootstrap check prints the failed checks, and no others'
bootstrap check-long
is "$(grep -oE '[0-9]+:(not )?ok [0-9]+.*' out)" \
	'3:not ok 15 - this fails' \
	'bootstrap check-long prints the failed checks of the log, and no others'

tree
ABSENT='python3 valgrind g++'
echo 'echo 1000' | stub id
bootstrap check
has "$(cat out)" 'apt-get install -y --no-install-recommends python3' \
	'packages to install by hand include the required ones'
has "$(cat out)" 'for package in valgrind ;' \
	'packages to install by hand include the optional ones'
ABSENT='python3 python3-venv valgrind'
SAID=$tmp/tree/said PATH=$tmp/tree/bin:$PATH ABSENT=$ABSENT WITH_CUDA='' \
	tree/bootstrap build >out 2>&1 </dev/null
has "$(cat out)" 'for package in python3-venv ;' \
	'packages for a build include python3-venv, which fetches cuda.h'
check 'packages for a build include none that only tests need' \
	sh -c '! grep -q valgrind out'

ABSENT=
tree
mkdir tree/build
touch tree/build/Makefile
bootstrap build
check 'a build folder that was configured by hand is configured again' sh -c \
	'grep -q "configuring in build" out && ! grep -q "No such file" out'
tree
mkdir tree/build
chmod 555 tree/build
if test "$(id -u)" != 0 || can_be_nobody; then
	user env PATH="$tmp/tree/bin:$PATH" tree/bootstrap build >out 2>&1
	has "$(cat out)" "may not write to $tmp/tree/build, which belongs to" \
		'a build folder that is not writable is named'
	check 'a build folder that is not writable is the only reason given' \
		sh -c '! grep -q apt-get out'
else
	skip 2 "$(why_not_nobody)"
fi
chmod 755 tree/build

mkdir static
has "$(cd static && "$srcdir/configure" CC="$CC" --disable-shared 2>&1)" \
	'leave --disable-shared out' \
	'configure refuses --disable-shared'
finish
