#!/bin/sh
# SPDX-License-Identifier: MIT
# The table of dtypes in the library and the one in the manual page.
. "${0%/*}/../tap.inc"

# Lines "NAME BLOCK BYTES".
of_library()
{
	sed -nE 's/^	X\((\w+), ([0-9]+), ([0-9]+),.*/\1 \2 \3/p' \
		"$srcdir/lib/mem/dtype_table.h" | sort
}

# A line of the page may have several names: ".It Dv A , B Ta 1 Ta 2".
of_page()
{
	sed -n 's/^\.It Dv \(.*\) Ta \(.*\) Ta \(.*\)/\1 \2 \3/p' \
		"$srcdir/man/weir_dtype_info.3" | tr -d , |
		awk '{ for (i = 1; i < NF - 1; i++)
			print substr($i, 12), $(NF - 1), $NF }' | sort
}

plan 2
test "$(of_library | wc -l)" -gt 40
t_result $? 'the table of dtypes can be read'
is "$(of_page)" "$(of_library)" \
	'weir_dtype_info(3) has each dtype, with the size of its blocks'
finish
