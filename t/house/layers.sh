#!/bin/sh
# SPDX-License-Identifier: MIT
# Which folder may include which, how long a file may be, and that each folder
# has a README that names its files. HACKING.md, "Layers", has the rules in words.
. "${0%/*}/../tap.inc"

cd "$srcdir" || exit 1
# From the lowest: a folder includes those before it; backends only a few.
layers='core races dev mem place alloc cache io stream heap interop graph model'
backends='kernels cpu cuda http'
# The folders in lib/graph, from the lowest; they include lib/graph itself.
rooms='prefetch compile exec compare'
folders="$layers $backends"

# Lines "FILE:INCLUDED" of the quoted includes of the files given.
includes()
{
	grep -sHE '^[[:space:]]*#[[:space:]]*include' "$@" /dev/null |
		sed -nE 's/^([^:]*):[^"<]*["<]([^">]*)[">].*/\1:\2/p'
}

# uses FOLDER PATTERN...: includes of a folder of lib that match a pattern.
uses()
{
	folder=$1
	shift
	for pattern; do
		includes lib/$folder/*.[ch] lib/$folder/*/*.[ch] | grep -E ":(\.\./)?$pattern"
	done
}

# above LAYER: includes of lib/LAYER that reach a layer above it, or a backend.
above()
{
	others=
	for other in $layers; do
		test "$other" = "$1" && others=
		others="$others|$other"
	done
	uses "$1" "($(echo $backends | tr ' ' '|')$(echo "$others" |
		sed "s/^|$1//"))/"
}

# above_room ROOM: includes of lib/graph/ROOM that reach a room above it. ROOM is
# '.' for the files that are directly in lib/graph.
above_room()
{
	others=
	for other in . $rooms; do
		others="$others|$other"
		test "$other" = "$1" && others=
	done
	includes lib/graph/$1/*.[ch] | grep -E ":(graph/|\.\./)?(${others#|})/"
}

# Files besides those of $1 that include <$2>.
include_system()
{
	grep -rlE "^[[:space:]]*#[[:space:]]*include[[:space:]]*<$1>" \
		lib text llama tools | sort
}

too_long()
{
	git ls-files 2>/dev/null | grep . >"$tmp/files" ||
		find include lib hooks text llama tools bench examples t man -type f \
			>"$tmp/files"
	grep -E '\.(c|h|sh|inc|md|am|mk|[1-9])$|/[^.]*$' "$tmp/files" |
		while read -r file; do
			test -f "$file" || continue
			n=$(wc -l <"$file")
			test "$n" -le 900 || echo "$file: $n lines"
		done
}

without_readme()
{
	for dir in lib lib/*/ hooks text llama tools bench examples \
		examples/*/ man t; do
		ls "$dir"/*.[ch137] >/dev/null 2>&1 || continue
		test -s "$dir/README.md" || test -s "$dir/README" ||
			echo "$dir"
	done
}

# Files of a folder with a README that does not name NAME.c or NAME.h, nor a
# pattern of them: NAME.[ch], or PREFIX* for NAME = PREFIX_REST.
not_named()
{
	for file in lib/*/*.[ch] lib/*/*/*.[ch] hooks/*.[ch] bench/*.[chp]* text/*.[ch] \
		llama/*.[ch] tools/*.[ch] examples/*/*.[ch] t/fakecuda/*.[ch]; do
		name=$(basename "${file%.*}")
		dir=$(dirname "$file")
		pages=$(ls "$dir"/*.md "$dir"/../README.md 2>/dev/null |
			grep -v RESULTS)
		grep -qE "(^|[^a-z_])($name\.(c|h|py|\[ch\])|${name%%[_-]*}[_-]?\*)" \
			$pages || echo "$file"
	done
}

long_readme()
{
	for file in lib/README* lib/*/README* lib/*/*/README* [thblem]*/README* \
		examples/*/README*; do
		test -f "$file" || continue
		n=$(wc -l <"$file")
		test "$n" -le 150 || echo "$file: $n lines"
	done
}

dirs=$(echo $folders | tr ' ' '|')
plan 40
is "$(includes tools/*.[ch] | grep -E \
	":(\.\./)*((lib|$dirs)/|(sys|error|root|buf|source|backend)\.h)")" \
	'' 'the command includes nothing of weir but <weir.h>'
is "$(includes tools/*.[ch] | grep -E ':weir/')" '' \
	'the command includes no header of weir/ alone'
is "$(includes examples/*.c examples/*/*.[ch] |
	grep -vE ':(\.\./)+(text|llama)/[a-z]+\.h$|^examples/module\.c:weir/backend\.h$' |
	grep -E ':weir/|/\.\.')" '' \
	'the examples include nothing of weir but <weir.h>, text and llama'
for folder in text llama; do
	is "$(includes $folder/*.[ch] |
		grep -E ":(\.\.|weir|lib|tools|$dirs)/")" '' \
		"$folder includes nothing of weir but <weir.h>"
done
is "$(includes hooks/*.[ch] | grep -E ":(weir|$dirs)/|/\.\." |
	grep -v ':weir/cuda\.h$')" '' \
	'hooks include nothing of weir but <weir.h> and <weir/cuda.h>'
is "$(includes lib/*.[ch] | grep -vE '^lib/weir.c:(core|races|dev|mem|alloc|cpu)/' |
	grep -E ":($dirs)/")" '' \
	'of the files directly in lib only weir.c includes folders'
below=
for layer in $layers; do
	is "$(above $layer)" '' \
		"lib/$layer includes only ${below:-itself}${below:+and itself}"
	below="$below$layer, "
done
is "$(above_room .)" '' 'the files directly in lib/graph include none of its rooms'
below=
for room in $rooms; do
	is "$(above_room $room)" '' \
		"of the rooms of lib/graph, $room includes only ${below}itself"
	below="$below$room, "
done
is "$(includes lib/model/format/*.[ch] | grep -E ':(model|\.\.)/(load|save)/')" '' \
	'lib/model/format includes nothing of lib/model/load and save'
is "$(includes lib/model/load/*.[ch] | grep -E ':(model|\.\.)/save/'
	includes lib/model/save/*.[ch] | grep -E ':(model|\.\.)/load/')" '' \
	'lib/model/load and lib/model/save include nothing of each other'
is "$(includes lib/model/fetch/*.[ch] | grep -E ':(model|\.\.)/(load|save)/'
	includes lib/model/format/*.[ch] lib/model/load/*.[ch] lib/model/save/*.[ch] |
		grep -E ':(model|\.\.)/fetch/')" '' \
	'lib/model/fetch includes lib/model/format, and nobody includes it'
is "$(uses kernels '[a-z]+/' |
	grep -vE ':((kernels|sys|weir)/.*|mem/dtype_table\.h)$')" '' \
	'lib/kernels includes weir/backend.h, the table of dtypes, and itself'
is "$(uses cpu '[a-z]+/' | grep -vE \
	':((cpu|sys|weir)/.*|dev/backend\.h|kernels/(segment|team)\.h)$')" '' \
	'lib/cpu includes weir/backend.h, itself and the entry of lib/kernels'
is "$(uses cuda '[a-z]+/' | grep -vE \
	':((cuda|sys|weir)/.*|dev/backend\.h|interop/cuda_ext\.h)$')" '' \
	'lib/cuda includes weir/backend.h, interop/cuda_ext.h and itself'
is "$(uses http '[a-z]+/' | grep -vE ':((http|sys|arpa|netinet|curl)/.*|weir/source\.h)$')" '' \
	'lib/http includes weir/source.h and itself'
is "$(includes lib/*.[ch] lib/*/*.[ch] lib/*/*/*.[ch] | grep -E ':(.*/)?cuda_ext\.h' |
	grep -vE '^lib/(interop|cuda)/[^:]*:interop/cuda_ext\.h$')" '' \
	'only lib/interop and lib/cuda include lib/interop/cuda_ext.h'
is "$(include_system liburing.h | wc -l)" 1 \
	'<liburing.h> is included by one file'
# Anonymous memory has descriptor -1; a call may take two lines.
is "$(grep -rhA1 -E 'weir__sys_map\(|[^_]mmap\(' lib/io lib/stream lib/model |
	grep -E -e '-1,|MAP_ANON')" '' \
	'lib/io, lib/stream and lib/model take memory from lib/alloc'
is "$(include_system cuda.h)" 'lib/cuda/driver.h' \
	'<cuda.h> is included by one header'
is "$(too_long)" '' 'no file has more than 900 lines'
is "$(without_readme)" '' 'each folder of sources has a README'
is "$(not_named)" '' 'the README of a folder, or a page beside it, names each source file'
is "$(long_readme)" '' 'no README has more than 150 lines'
finish
