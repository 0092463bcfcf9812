#!/bin/sh
# SPDX-License-Identifier: MIT
# One name, one thing in lib: tags of structs, enums and unions, and file names.
# HACKING.md, "Layers", has the rules in words.
. "${0%/*}/../tap.inc"

cd "$srcdir" || exit 1

# Lines "TAG FILE..." of the tags that several files define.
tags_of_several()
{
	find lib -name '*.[ch]' | sort |
		xargs awk '
		match($0, /^[[:space:]]*((typedef|static|const) )*(struct|enum|union) [A-Za-z_0-9]+( __attribute__.*)? *\{/) {
			line = $0
			sub(/^.*(struct|enum|union) /, "", line)
			sub(/[^A-Za-z_0-9].*/, "", line)
			if (!((line, FILENAME) in seen)) {
				seen[line, FILENAME]
				files[line] = files[line] " " FILENAME
				n[line]++
			}
		}
		END {
			for (tag in n)
				if (n[tag] > 1)
					print tag files[tag]
		}' | sort
}

# Lines "NAME FILE..." of the names that files of several folders have. The two
# backends, lib/cpu and lib/cuda, implement the same functions in the same files.
files_of_several()
{
	find lib -type f ! -name README.md ! -name local.mk ! -path '*/.*' | sort |
		awk -F/ '
		{
			twin = $2 == "cpu" || $2 == "cuda"
			if (!(twin && twins[$NF]))
				n[$NF]++
			twins[$NF] += twin
			files[$NF] = files[$NF] " " $0
		}
		END {
			for (name in n)
				if (n[name] > 1)
					print name files[name]
		}' | sort
}

plan 2
is "$(tags_of_several)" '' \
	'each tag of a struct, enum or union is defined in one file of lib'
is "$(files_of_several)" '' \
	'no two folders of lib have a file of the same name, but for lib/cpu and lib/cuda'
finish
