#!/bin/sh
# SPDX-License-Identifier: MIT
# The harness: a test that hangs is ended, a slow test is not, and a test that
# gives up does not end the others.
. "${0%/*}/../tap.inc"

misbehave=$builddir/t/misbehave
test -x "$misbehave" || skip_all 't/misbehave is not built'

# start HOW SECONDS: run misbehave; output in $tmp/HOW, status in
# $tmp/HOW.status.
start()
(
	ulimit -c 0
	WEIR_T_TIMEOUT=$2 "$misbehave" "$1" >"$tmp/$1" 2>/dev/null
	echo $? >"$tmp/$1.status"
) 2>/dev/null

# ended SIGNAL: the status of a test that hangs: of abort(), or of SIGNAL under
# ThreadSanitizer, which delays handlers.
ended()
{
	case $WEIR_T_SANITIZER in
	*thread*) echo $((128 + $1)) ;;
	*) echo 134 ;;
	esac
}

plan 9
start spin 1 &
start sleep 1 &
start slow 2 &
start bail 60
has "$(cat "$tmp/bail")" 'not ok 2 - no more of bail' \
	'a test that gives up prints a failed check'
is "$(grep -c 'Bail out!' "$tmp/bail")" 0 \
	'a test that gives up does not end all tests with "Bail out!"'
is "$(cat "$tmp/bail.status")" 255 'a test that gives up exits with status 255'
printf 'echo 1..1; echo ok 1 - after it\n' >"$tmp/after.sh"
if command -v prove >/dev/null; then
	printf 'exec "%s" bail\n' "$misbehave" >"$tmp/bail.sh"
	has "$(prove -v --exec "$srcdir/t/exec" "$tmp/bail.sh" \
		"$tmp/after.sh" 2>&1)" 'ok 1 - after it' \
		'prove runs the tests after one that gave up'
else
	skip 1 'no prove'
fi
wait
is "$(cat "$tmp/spin.status")" "$(ended 27)" \
	'a test that uses more CPU time than it may is ended'
is "$(cat "$tmp/sleep.status")" "$(ended 14)" \
	'a test that sleeps for ever is ended'
case $WEIR_T_SANITIZER in
*thread*) skip 1 'ThreadSanitizer delays the handlers of signals' ;;
*) is "$(cat "$tmp/spin" "$tmp/sleep" | grep -c '^not ok - the test hangs$')" \
	2 'a test that is ended prints that it hangs' ;;
esac
is "$(cat "$tmp/slow.status")" 0 \
	'a test that is slow but uses no CPU time is not ended'
is "$(grep -c '^ok' "$tmp/slow")" 3 'a slow test runs to its end'
finish
