#!/bin/sh
# SPDX-License-Identifier: MIT
# Which folder of lib may use the symbols of which: HACKING.md, "Layers". Includes
# alone (layers.sh) do not show a declaration of what a higher folder defines.
. "${0%/*}/../tap.inc"

command -v nm >/dev/null || skip_all 'no nm'
cd "$builddir/lib" || exit 1
# From the lowest: a folder uses itself and those before it.
layers='core races dev mem place alloc io stream heap interop graph model'

# Lines "FOLDER OBJECT T|U SYMBOL" of the objects of lib, with our symbols only.
# An object without a source is left from an earlier build.
for object in $(find . -name '*.o' -path '*/.libs/*'); do
	source=${object%/.libs/*}/${object##*_la-}
	test -f "$srcdir/lib/${source%.o}.c" || continue
	folder=${object#./}
	folder=${folder%%/*}
	test "$folder" != .libs || folder=top
	name=${object##*_la-}
	nm -g "$object" 2>/dev/null | awk -v f="$folder" -v o="${name%.o}" '
		$(NF - 1) == "U" && $NF ~ /^weir_/ { print f, o, "U", $NF }
		NF == 3 && $2 != "U" && $3 ~ /^weir_/ { print f, o, "T", $3 }'
done | sort >"$tmp/symbols"

# uses FOLDER ALLOWED...: symbols that FOLDER uses, and other folders define.
uses()
{
	awk -v folder="$1" -v allowed=" $* " '
		$3 == "T" { where[$4] = $1 }
		$3 == "U" && $1 == folder { user[$4] = $2 }
		END {
			for (s in user)
				if (s in where && !index(allowed, " " where[s] " "))
					print folder "/" user[s] ": " s " of " where[s]
		}' "$tmp/symbols" | sort
}

wc -l <"$tmp/symbols" >"$tmp/count"
plan 16
check 'the objects of lib have over 1000 symbols' \
	test "$(cat "$tmp/count")" -gt 1000
below=
for layer in $layers; do
	is "$(uses $layer $below)" '' \
		"lib/$layer uses symbols of ${below:-itself}${below:+ and itself}"
	below="$below${below:+ }$layer"
done
is "$(uses kernels)" '' 'lib/kernels uses symbols of itself'
is "$(uses cpu kernels)" '' 'lib/cpu uses symbols of lib/kernels and itself'
is "$(uses cuda)" '' 'lib/cuda uses symbols of itself'
finish
