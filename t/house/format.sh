#!/bin/sh
# SPDX-License-Identifier: MIT
# The format of the sources. clang-format-14 -i FILE corrects it.
. "${0%/*}/../tap.inc"

# The files that git tracks; in a release, those that exist.
sources()
{
	cd "$srcdir" || return
	git ls-files '*.c' '*.h' 2>/dev/null | grep . && return
	find include lib hooks text tools bench examples t -name '*.[ch]'
}

formatted()
{
	(cd "$srcdir" && sources | xargs clang-format-14 --dry-run -Werror)
}

# Titles that begin with "...", which are clear only after the title before.
continued_titles()
{
	grep -nE "[\"'](%s: )?\.\.\. [a-z\$%]" t/*.c t/*/*.[ch] t/*/*/*.c t/*/*.sh t/*/*/*.sh
}

# Lines of comments that end after column 80; addresses cannot be wrapped.
wide_comments()
{
	sources | xargs awk '
	FNR == 1 { inside = 0 }
	{
		line = $0
		gsub(/"([^"\\]|\\.)*"/, "\"\"")
		comment = inside || /\/\*/
		if (match($0, /.*\/\*/))
			inside = substr($0, RLENGTH + 1) !~ /\*\//
		else if (/\*\//)
			inside = 0
		if (!comment || line ~ /:\/\//)
			next
		while ((i = index(line, "\t")))
			line = substr(line, 1, i - 1) \
				substr("        ", 1, 8 - (i - 1) % 8) \
				substr(line, i + 1)
		if (length(line) > 80)
			print FILENAME ":" FNR ": " line
	}'
}

plan 5
if command -v clang-format-14 >/dev/null; then
	check 'clang-format-14 would change nothing' formatted
else
	skip 1 'no clang-format-14'
fi
cd "$srcdir" || exit 1
is "$(sources | xargs grep -L 'SPDX-License-Identifier: MIT')" '' \
	'each source file has its licence line'
is "$(sources | xargs grep -nE '[ 	]$')" '' 'no line ends in white space'
is "$(wide_comments)" '' 'no line of a comment is wider than 80 columns'
is "$(continued_titles)" '' 'each title of a test stands alone'
finish
