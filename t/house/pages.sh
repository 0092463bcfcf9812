#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual pages are clean and complete, and their examples work.
. "${0%/*}/../tap.inc"

cd "$srcdir/man" || exit 1

# mandoc's findings, except references to pages outside weir: those depend on
# what is installed. References to weir's own pages are checked below.
lint()
{
	# Its two outputs would be mixed in the middle of a line.
	mandoc -T lint -W style ./*.[1357] >"$tmp/lint" 2>"$tmp/lint.err"
	cat "$tmp/lint" "$tmp/lint.err" |
		grep -v -e 'referenced manual not found' \
			-e 'outdated mandoc.db lacks'
}

# Macros that enclose more than was meant, in the text as a reader sees it:
# "[EMFILE, [ENFILE]]".
entangled()
{
	for page in *.[1357]; do
		mandoc -T ascii "$page" 2>/dev/null | col -bx | tr '\n' ' ' |
			grep -oE '\[E[A-Z0-9]+,? *\[[^]]*\]*' |
			sed "s/^/$page: /"
	done
}

# "NAME SECTION" of every name that has a page.
known()
{
	for page in *.[1357]; do
		echo "${page%.*} ${page##*.}"
		awk -v s="${page##*.}" '/^\.Sh / { on = $2 == "NAME" }
			on && $1 == ".Nm" { print $2, s }' "$page"
	done | sort -u
}

unresolved()
{
	known >"$tmp/known"
	grep -HE '^\.Xr weir' ./*.[1357] |
		awk '{ print $2, $3, $1 }' |
		while read -r name section where; do
			grep -qx "$name $section" "$tmp/known" ||
				echo "$where $name($section)"
		done
}

# Required sections that a page of calls lacks.
incomplete()
{
	for page in *.3; do
		for want in 'Sh NAME' 'Sh SYNOPSIS' 'Sh DESCRIPTION' \
			'Ss Ownership' 'Ss Threads' 'Ss Blocking' \
			'Sh RETURN VALUES' 'Sh EXAMPLES' 'Sh ERRORS' \
			'Sh SEE ALSO' 'Sh HISTORY'; do
			grep -qx "\.$want" "$page" || echo "$page: $want"
		done
	done
}

# Pages of calls that list no error.
unlisted()
{
	for page in *.3; do
		awk '/^\.Sh / { on = $2 == "ERRORS" }
		     on && /^\.It Bq Er/ { found = 1 }
		     END { exit !found }' "$page" || echo "$page"
	done
}

# example PAGE: the literal blocks of EXAMPLES, without markup.
example()
{
	awk '/^\.Sh / { on = $2 == "EXAMPLES" }
	     on && /^\.Bd -literal/ { text = 1; next }
	     on && /^\.Ed/ { text = 0 }
	     on && text' "$1" | sed -e 's/\\e/\\/g' -e 's/^\\&//'
}

# Each example is C at file scope, after these headers.
compile()
{
	cat - >"$tmp/example.c" <<END
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <weir.h>
END
	example "$1" >>"$tmp/example.c"
	grep -q 'weir_' "$tmp/example.c" || { echo "$1: no example"; return 1; }
	$CC -std=c99 -pedantic -Wall -Wextra -Werror -Wno-unused-function \
		-I"$srcdir/include" -c -o "$tmp/example.o" "$tmp/example.c"
}

compile_all()
{
	for page in *.3 weir.7; do
		compile "$page" 2>&1 || { echo "in $page"; return 1; }
	done
}

# SYNOPSIS as C: a declaration that differs from the header's is an error.
declarations()
{
	printf '#include <weir.h>\n#include <weir/cuda.h>\n'
	awk '/^\.Sh / { on = $2 == "SYNOPSIS" }
	function quoted(s) { gsub(/" "/, ", ", s); gsub(/"/, "", s); return s }
	!on { next }
	/^\.Ft / { type = quoted(substr($0, 5)) }
	/^\.Fn / { name = $2; args = quoted(substr($0, 6 + length(name)))
		print "__typeof__(" type ") " name "(" args ");" }
	/^\.Fo / { name = $2; args = "" }
	/^\.Fa / { args = args (args ? ", " : "") quoted(substr($0, 5)) }
	/^\.Fc/ { print "__typeof__(" type ") " name "(" args ");" }
	' *.3
}

declare_all()
{
	declarations >"$tmp/synopsis.c"
	test "$(wc -l <"$tmp/synopsis.c")" -gt 50 &&
	$CC -std=gnu99 -Wall -Wextra -Werror -I"$srcdir/include" \
		-fsyntax-only "$tmp/synopsis.c"
}

# The examples of the pages of the command are run unchanged, in a folder of
# their own.
run_commands()
{
	mkdir "$tmp/run" || return
	for page in *.1; do
		example "$page"
	done | sed "s:/tmp/:$tmp/run/:g" >"$tmp/run.sh"
	test -s "$tmp/run.sh" && (cd "$tmp/run" && sh -ex "$tmp/run.sh")
}

# Link and run the program of weir(7).
run_program()
{
	compile weir.7 && "$builddir/libtool" --quiet --mode=link $CC \
		${sanitize:+-fsanitize=$sanitize} -o "$tmp/program" \
		"$tmp/example.o" "$builddir/lib/libweir.la" &&
	weir synth tiny "$tmp/tiny.safetensors" &&
	"$tmp/program" "$tmp/tiny.safetensors" >"$tmp/names" &&
	test -s "$tmp/names"
}

# Options that only --help of a subcommand has, or only the page.
other_options()
{
	for command in $(weir --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
		weir $command --help 2>&1 | grep -oE -- '--[a-z][a-z-]*' |
			sort -u | grep -v -e --help >"$tmp/helped"
		awk -v c="$command" '/^\.Nm$/ { on = 0 }
			/^\.Cm / { on = $2 == c }
			/^\.Sh DESC/ { exit }
			on && /Fl -/ { for (i = 1; i < NF; i++)
				if ($i == "Fl") print "-" $(i + 1) }' weir.1 |
			sed 's/ .*//' | sort -u >"$tmp/paged"
		diff "$tmp/helped" "$tmp/paged" | sed -n "s/^[<>]/$command &/p"
	done
}

sanitize=$WEIR_T_SANITIZER
test "$sanitize" != no || sanitize=
plan 12
if command -v mandoc >/dev/null; then
	is "$(lint)" '' 'mandoc has no findings'
	is "$(entangled)" '' \
		'no error is in the brackets of another on a rendered page'
else
	skip 2 'no mandoc'
fi
is "$(unresolved)" '' "each reference to a page of weir's leads to one"
is "$(incomplete)" '' \
	'each page of calls has sections on ownership, threads, blocking and errors'
is "$(unlisted)" '' 'each page of calls lists errors'
is "$(ls ./*.[1357] | sed 's:./::' | sort)" \
	"$(sed -n 's/%D%/\n/gp' local.mk | sed -n 's:^/\(weir[a-z_-]*\.[1357]\).*:\1:p' | sort)" \
	'each page is installed'
is "$(sh ./links | awk '{ print $2 }' | sort | uniq -d)" '' \
	'no name has two pages'
check 'the pages declare the calls as the headers do' declare_all
check 'the examples of the calls compile' compile_all
if test -x "$builddir/tools/weir"; then
	PATH=$builddir/tools:$PATH
	check 'the program of weir(7) loads a model' run_program
	check 'the examples of the pages of the command run' run_commands
	is "$(other_options)" '' \
		'weir(1) and --help name the same options'
else
	skip 3 'the command is not built'
fi
finish
