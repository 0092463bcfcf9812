#!/bin/sh
# SPDX-License-Identifier: MIT
# The harness: a test that hangs is ended, one that is only slow is not, and
# one that gives up does not take the others with it.
. "$(dirname "$0")/tap.inc"

misbehave=$builddir/t/misbehave
test -x "$misbehave" || skip_all 't/misbehave is not built'

# start HOW SECONDS: what it prints is $tmp/HOW, its status $tmp/HOW.status.
start()
(
	ulimit -c 0
	WEIR_T_TIMEOUT=$2 "$misbehave" "$1" >"$tmp/$1" 2>/dev/null
	echo $? >"$tmp/$1.status"
) 2>/dev/null

# ended SIGNAL: the status of a test that hangs, by its own doing or by SIGNAL.
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
	'a test that gives up has failed'
is "$(grep -c 'Bail out!' "$tmp/bail")" 0 '... and does not end the others'
is "$(cat "$tmp/bail.status")" 255 '... and its status says so'
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
	'one that waits for ever is ended too'
case $WEIR_T_SANITIZER in
*thread*) skip 1 'ThreadSanitizer holds handlers of signals back' ;;
*) is "$(cat "$tmp/spin" "$tmp/sleep" | grep -c '^not ok - the test hangs$')" \
	2 '... and they say so' ;;
esac
is "$(cat "$tmp/slow.status")" 0 \
	'one that takes long and uses no CPU time is not, each check anew'
is "$(grep -c '^ok' "$tmp/slow")" 3 '... and runs to its end'
finish
