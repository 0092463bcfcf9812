#!/bin/sh
# SPDX-License-Identifier: MIT
# The archive of a release has all files that git tracks, and no broken links.
. "${0%/*}/../tap.inc"

cd "$srcdir" || exit 1
git ls-files 2>/dev/null | grep -v '^\.gitignore$' | sort >"$tmp/tracked"
test -s "$tmp/tracked" || skip_all 'not a checkout'

archive()
{
	$MAKE -s -C "$builddir" distdir distdir="$tmp/dist"
}

# Files that git tracks and the archive lacks.
left_out()
{
	while read -r file; do
		test ! -e "$file" || test -e "$tmp/dist/$file" || echo "$file"
	done <"$tmp/tracked"
}

scripts()
{
	for file in bootstrap .ci/run t/*/*.sh t/*/*/*.sh; do
		sh -n "$file" 2>&1 || echo "$file"
	done
}

# Links of the documents to files of the tree.
broken_links()
{
	for file in $(grep '\.md$' "$tmp/tracked"); do
		grep -oE '\]\([^)#: ]+\)' "$file" | tr -d '])(' |
			while read -r link; do
				test -e "$(dirname "$file")/$link" ||
					echo "$file: $link"
			done
	done
}

# Kernels that this build has, and whose PTX the archive lacks.
without_ptx()
{
	for file in "$builddir"/lib/cuda/kernels/*.ptx; do
		test ! -f "$file" ||
			cmp "$file" "$tmp/dist/lib/cuda/kernels/${file##*/}" 2>&1
	done
}

plan 6
check 'make distdir succeeds' archive
is "$(without_ptx)" '' 'the archive has the PTX of the kernels'
is "$(left_out)" '' 'the archive has every file that git tracks'
is "$(scripts)" '' 'each shell script has valid syntax'
is "$(for f in bootstrap .ci/run; do
	test -x "$tmp/dist/$f" || echo $f
done)" '' 'scripts that are started by name are executable in the archive'
is "$(broken_links)" '' 'the links of the documents lead to existing files'
chmod -R u+w "$tmp/dist"
finish
