#!/bin/sh
# SPDX-License-Identifier: MIT
# Which folder of lib may use the symbols of which: HACKING.md, "Layers". Includes
# alone (layers.sh) do not show a declaration of what a higher folder defines.
. "${0%/*}/../tap.inc"

command -v nm >/dev/null || skip_all 'no nm'
cd "$builddir/lib" || exit 1
# From the lowest: a folder uses itself and those before it.
layers='core races dev mem place alloc cache io stream heap interop graph model'
rooms='graph graph/prefetch graph/compile graph/exec graph/compare'

# Lines "FOLDER OBJECT T|U SYMBOL" of the objects of lib, with our symbols only;
# FOLDER has all its parts, as graph/compile.
# An object without a source is left from an earlier build.
for object in $(find . -name '*.o' -path '*/.libs/*'); do
	source=${object%/.libs/*}/${object##*_la-}
	test -f "$srcdir/lib/${source%.o}.c" || continue
	folder=${object#./}
	folder=${folder%/.libs/*}
	case $folder in .libs/*) folder=top ;; esac
	name=${object##*_la-}
	nm -g "$object" 2>/dev/null | awk -v f="$folder" -v o="${name%.o}" '
		$(NF - 1) == "U" && $NF ~ /^weir_/ { print f, o, "U", $NF }
		NF == 3 && $2 != "U" && $3 ~ /^weir_/ { print f, o, "T", $3 }'
done | sort >"$tmp/rooms"
sed 's|^\([a-z]*\)/[^ ]*|\1|' "$tmp/rooms" >"$tmp/symbols"
grep '^graph' "$tmp/rooms" >"$tmp/graph"

# uses FOLDER ALLOWED...: symbols that FOLDER uses, and other folders define.
# $in: the file of lines to search; a folder that it lacks does not matter.
uses()
{
	awk -v folder="$1" -v allowed=" $* " '
		$3 == "T" { where[$4] = $1 }
		$3 == "U" && $1 == folder { user[$4] = $2 }
		END {
			for (s in user)
				if (s in where && !index(allowed, " " where[s] " "))
					print folder "/" user[s] ": " s " of " where[s]
		}' "$tmp/$in" | sort
}
in=symbols

wc -l <"$tmp/symbols" >"$tmp/count"
plan 22
check 'the objects of lib have over 1000 symbols' \
	test "$(cat "$tmp/count")" -gt 1000
below=
for layer in $layers; do
	is "$(uses $layer $below)" '' \
		"lib/$layer uses symbols of ${below:-itself}${below:+ and itself}"
	below="$below${below:+ }$layer"
done
in=graph
below=
for room in $rooms; do
	is "$(uses $room $below)" '' \
		"of lib/graph, $room uses symbols of ${below:-itself}${below:+ and itself}"
	below="$below${below:+ }$room"
done
in=symbols
is "$(uses kernels)" '' 'lib/kernels uses symbols of itself'
is "$(uses cpu kernels)" '' 'lib/cpu uses symbols of lib/kernels and itself'
is "$(uses cuda)" '' 'lib/cuda uses symbols of itself'
finish
