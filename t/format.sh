#!/bin/sh
# SPDX-License-Identifier: MIT
# The look of the sources. clang-format-14 -i FILE puts it right.
. "$(dirname "$0")/tap.inc"

# Those that git tracks; of a release, those that are there.
sources()
{
	cd "$srcdir" || return
	git ls-files '*.c' '*.h' 2>/dev/null | grep . && return
	find include lib tools bench examples t -name '*.[ch]'
}

formatted()
{
	(cd "$srcdir" && sources | xargs clang-format-14 --dry-run -Werror)
}

plan 3
if command -v clang-format-14 >/dev/null; then
	check 'clang-format-14 would change nothing' formatted
else
	skip 1 'no clang-format-14'
fi
cd "$srcdir" || exit 1
is "$(sources | xargs grep -L 'SPDX-License-Identifier: MIT')" '' \
	'each source file says its licence'
is "$(sources | xargs grep -nE '[ 	]$')" '' 'no line ends in a blank'
finish
