#!/bin/sh
# SPDX-License-Identifier: MIT
# The types of python/weir, by mypy.
. "${0%/*}/../tap.inc"
. "${0%/*}/python.inc"

find_python mypy
cd "$srcdir/python" || exit 99
plan 1
check 'mypy finds no error in weir' \
	"$python" -m mypy --strict --cache-dir "$tmp/mypy" weir
finish
