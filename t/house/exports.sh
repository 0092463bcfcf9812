#!/bin/sh
# SPDX-License-Identifier: MIT
# libweir.so, its map, the headers and the pages name the same calls, and the
# pages name every constant and option of the headers.
. "${0%/*}/../tap.inc"

lib=$builddir/lib/.libs/libweir.so
command -v nm >/dev/null || skip_all 'no nm'
cd "$srcdir" || exit 1

nm -D --defined-only "$lib" | awk '$2 != "A" { print $3 }' |
	sed 's/@.*//' | sort >"$tmp/library"
sed -n 's/^[[:space:]]*\(weir_[a-z0-9_]*\);$/\1/p' lib/libweir.map |
	sort >"$tmp/map"
# The headers without comments, then the names before "(" or "(*name(".
# The header of backends documents its members itself; weir-backend(7) has its
# constants.
ls include/weir.h include/weir/*.h | grep -v /backend.h | xargs cat >"$tmp/all.h"
${CC} -fpreprocessed -dD -E -P -x c "$tmp/all.h" 2>/dev/null >"$tmp/bare.h"
${CC} -fpreprocessed -dD -E -P -x c include/weir/backend.h 2>/dev/null \
	>"$tmp/backend.h"
tr '\n' ' ' <"$tmp/bare.h" | sed 's/WEIR_API/\nWEIR_API/g' |
	grep '^WEIR_API' | sed -n 's/^WEIR_API[^(]*(\{0,1\}\**\(weir_[a-z0-9_]*\)(.*/\1/p;
		s/^WEIR_API[^(]*[ *]\(weir_[a-z0-9_]*\)(.*/\1/p' |
	sort -u >"$tmp/headers"
awk '/^\.Sh / { on = $2 == "NAME" } on && $1 == ".Nm" { print $2 }' \
	man/*.3 | sort >"$tmp/pages"
# SYNOPSIS declares what NAME names.
awk '/^\.Sh / { on = $2 == "SYNOPSIS" }
     on && ($1 == ".Fn" || $1 == ".Fo") { print $2 }' man/*.3 |
	sort >"$tmp/synopsis"

constants()
{
	sed -nE 's/^[[:space:]]*(#[[:space:]]*define[[:space:]]+)?(WEIR_[A-Z0-9_]+)([[:space:]]*=|[[:space:]]+[^(]).*/\2/p' \
		"$tmp/bare.h" "$tmp/backend.h" |
		grep -vE '^WEIR_(API|NONNULL|NODISCARD|H|[A-Z]+_H|_[A-Z_]*)$' | sort -u
}

# Members of structs of the headers, except size and reserved.
members()
{
	awk '/^struct weir_[a-z_]* \{/ { on = 1; next } /^\}/ { on = 0 }
	     on && !/\(/' "$tmp/bare.h" | tr ';' '\n' |
		sed -E 's/\[[^]]*\]//g' |
		sed -nE 's/.*[ *]([a-z_0-9]+(, *[a-z_0-9]+)*)[[:space:]]*$/\1/p' |
		tr -d ' ' | tr ',' '\n' | grep -vE '^(size|reserved)$' |
		sort -u
}

undocumented()
{
	cat man/*.[137] >"$tmp/text"
	while read -r word; do
		grep -qwF -- "$word" "$tmp/text" || echo "$word"
	done
}

wc -l <"$tmp/map" >"$tmp/count"
plan 9
check 'the map has over 50 calls' test "$(cat "$tmp/count")" -gt 50
check 'the library exports exactly the calls of the map' \
	diff "$tmp/map" "$tmp/library"
check 'the headers declare exactly the calls of the map' \
	diff "$tmp/map" "$tmp/headers"
check 'each call has a page, and each page a call' \
	diff "$tmp/map" "$tmp/pages"
check 'the pages declare exactly the calls that they name' \
	diff "$tmp/pages" "$tmp/synopsis"
is "$(constants | undocumented)" '' 'each constant is in a page'
is "$(members | undocumented)" '' \
	'each member of a public struct is in a page'
is "$(nm -D --defined-only "$builddir/lib/.libs/libweir.so" |
	awk '$2 == "A" { print $3 }' | sed 's/@.*//')" WEIR_0.1 \
	'the library has one version node'
is "$(grep -rhoE 'getenv\("[A-Z_]*"' lib | sort -u | sed 's/.*"\(.*\)"/\1/')" \
	"$(printf 'WEIR_CACHE\nWEIR_CACHE_SIZE\nWEIR_DEBUG\nWEIR_MODULE_PATH')" \
	'the library reads four environment variables'
finish
